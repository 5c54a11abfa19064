"""Transactions: JSON and CSV records, files of past transactions, and the records that were refused."""
