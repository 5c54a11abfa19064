"""The configuration of an installation: locations of files, settings, and names of topics."""
