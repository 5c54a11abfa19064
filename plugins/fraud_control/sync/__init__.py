"""The connection between the store and the rule log: outbox, mirror, CDC intake, drift and the audit check."""
