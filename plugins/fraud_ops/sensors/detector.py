"""Waiting for a detector that is healthy, has caught up, or has rules live."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from fraud_ops.hooks.connections import KAFKA
from fraud_ops.triggers.detector import OutcomeTrigger
from fraud_ops.triggers.rules import RulesLiveTrigger
from fraud_ops.verdicts.until import Outcome, Until

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CaughtUpSensor", "HealthySensor", "RulesLiveSensor"]


class _OutcomeSensor(BaseSensorOperator):
    """Waits for one state; fails for good as soon as it cannot come any more."""

    until: Until

    def __init__(self, *, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> None:
        self.defer(
            trigger=OutcomeTrigger(self.until.value, kafka_conn_id=self.kafka_conn_id),
            method_name="after",
            timeout=timedelta(seconds=self.timeout),
        )

    def after(self, context: Context, event: dict[str, Any]) -> str:
        """How it ended."""
        ended = Outcome.of(event)
        if not ended.reached:
            raise AirflowFailException(ended.said)
        return ended.said


class HealthySensor(_OutcomeSensor):
    """Waits for a detector that makes progress and does not lag."""

    until = Until.HEALTHY


class CaughtUpSensor(_OutcomeSensor):
    """Waits for a detector that has read what there is."""

    until = Until.CAUGHT_UP


class RulesLiveSensor(BaseSensorOperator):
    """Waits until the detector has reported on records of the rule log, by their versions; fails where it refused one.

    `versions` is a list, or a template that renders to one.
    """

    template_fields: Sequence[str] = ("versions",)

    def __init__(self, *, versions: Any, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.versions = versions
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> list[int]:
        """Nothing to wait for is no wait."""
        versions = [int(version) for version in self.versions or ()]
        if versions:
            self.defer(
                trigger=RulesLiveTrigger(versions, kafka_conn_id=self.kafka_conn_id),
                method_name="after",
                timeout=timedelta(seconds=self.timeout),
            )
        return []

    def after(self, context: Context, event: dict[str, Any]) -> list[int]:
        """The versions that are live."""
        if event["refused"]:
            raise AirflowFailException(f"the detector refused {event['refused']}")
        return list(event["live"])
