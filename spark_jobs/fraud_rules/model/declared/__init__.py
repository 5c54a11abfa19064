"""What a schema file declares: the source and the display of each field, and the format of the records."""
