"""The inputs of a measurement: transactions, rule sets and archives, the same for the same seed."""
