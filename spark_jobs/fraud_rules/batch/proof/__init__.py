"""Makes proofs of alerts from the topics or the archive. `fraud_rules.proof` has their file and their check."""
