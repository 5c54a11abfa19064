"""Expressions over the fields of a payment: typed trees, and their exact evaluation over columns."""
