"""What people read and change: every read is a query, every change one database transaction."""
