"""The configuration of an installation: where its files are, its settings, and the names of its topics."""
