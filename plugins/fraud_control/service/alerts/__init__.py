"""The alerts: the list of the newest ones, the index for searches, searches that users save, and exports."""
