"""`make demo`: everything on one machine, with traffic, planted frauds, and a check of every alert at the end.

It may do what the domain may not: it starts processes and talks to Kafka (through `fraud_rules.kafka`).
"""
