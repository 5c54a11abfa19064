"""Waits until the detector applies new rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from fraud_rules_airflow.hooks.connections import KAFKA
from fraud_rules_airflow.triggers.rules import RulesLiveTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class RulesLiveSensor(BaseSensorOperator):
    """Waits until the detector has acknowledged records of the rule log. Fails if the detector rejected one.

    `versions` is a list of rule versions, or a template that renders to one.
    """

    template_fields: Sequence[str] = ("versions",)

    def __init__(self, *, versions: Any, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.versions = versions
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> list[int]:
        """Return at once if there are no versions."""
        versions = [int(version) for version in self.versions or ()]
        if versions:
            self.defer(
                trigger=RulesLiveTrigger(versions, kafka_conn_id=self.kafka_conn_id),
                method_name="after",
                timeout=timedelta(seconds=self.timeout),
            )
        return []

    def after(self, context: Context, event: dict[str, Any]) -> list[int]:
        """Return the versions that are live."""
        if event["refused"]:
            raise AirflowFailException(f"the detector rejected {event['refused']}")
        return list(event["live"])
