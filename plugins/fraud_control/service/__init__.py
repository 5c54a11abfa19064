"""The service layer: each read is a query, each change one database transaction."""
