"""The DAGs of an installation."""

DETECTOR = "fraud_detector"
QUICK = ("fraud_topics", "fraud_checkpoint_health", "fraud_supervision", "fraud_seed_rules")
"""DAGs whose runs take seconds."""
WITH_SPARK = ("fraud_archive", "fraud_checkpoint_drill")
WARM_UP = "fraud_warm_up"
