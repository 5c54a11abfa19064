"""Transactions: JSON and CSV records, files of past transactions, and rejected records."""
