"""Registers the provider's plugin with an Airflow that has this plugins folder. Elsewhere, an entry point does."""

from fraud_rules_airflow.plugin import FraudPlugin

__all__ = ["FraudPlugin"]
