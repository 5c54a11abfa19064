"""What a measured detector reads: transactions, rule sets and archives, made from seeds."""
