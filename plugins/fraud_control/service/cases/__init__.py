"""Cases: the work on the alerts of one entity."""
