"""The operator that checks the detector's checkpoint in Kafka, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException

from fraud_ops.alarms import Alarm
from fraud_ops.verdicts.checkpoint import (
    OPEN_MS,
    Finding,
    Grade,
    LastDrill,
    document,
    findings,
    overall,
    table,
    unreachable,
)
from fraud_ops.verdicts.verdict import Health
from fraud_rules_airflow.airflow_ui.links import Runbook, publish_runbook
from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.operators.detector import DetectorOperator
from fraud_rules_airflow.operators.drill import DRILL
from fraud_rules_airflow.operators.standing_alarms import StandingAlarms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from fraud_ops.verdicts.observation import DetectorObservation
    from fraud_rules_airflow.hooks.detector import FraudDetectorHook

CHECKPOINT = Asset(name="fraud_checkpoint", uri="fraud://detector/checkpoint", group="fraud")
"""The asset of the checkpoint. Each event has the findings of one check."""

_SIZE = "size_bytes"
_PART = "checkpoint"


class CheckCheckpointOperator(DetectorOperator):
    """Checks the detector's checkpoint: the newest marker, and the topics that it names.

    The results are a table in the task's log, an event of `CHECKPOINT`, and standing alarms. A bad finding fails the
    task without retries. The check starts no JVM, and writes only alarms.
    """

    operator_extra_links = (Runbook(),)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(inlets=[DRILL], outlets=[CHECKPOINT], **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        hook = self.hook()
        with airflow_errors():
            observation = hook.observe()
            if observation.fault is None and not observation.intents.valid:
                self.log.info("no checkpoint to check: the detector has never run in this installation")
                publish_runbook(context, Health.STOPPED)
                return {}
            found = (
                unreachable(observation.fault)
                if observation.fault is not None
                else self._findings(context, hook, observation)
            )
        grade, verdict = overall(found)
        self.log.info("%s\n%s", grade.name, table(found))
        publish_runbook(context, verdict)
        context["outlet_events"][CHECKPOINT].extra = {"grade": grade.name, **document(found)}
        alarms = {
            each.alarm: Alarm(each.alarm, observation.detector, f"{each.check}: {each.value}", part=_PART)
            for each in found
            if each.alarm is not None
        }
        text = "; ".join(f"{each.check}: {each.value}" for each in found if each.grade is Grade.BAD)
        if grade is Grade.BAD:
            alarms[verdict.value] = Alarm(verdict.value, observation.detector, text, part=_PART)
        StandingAlarms(context, self.task_id, self.kafka_conn_id).report(alarms)
        if grade is Grade.BAD:
            raise AirflowFailException(f"{verdict.value}: {text}")
        return {"grade": grade.name}

    def _findings(
        self, context: Context, hook: FraudDetectorHook, observation: DetectorObservation
    ) -> Sequence[Finding]:
        from fraud_rules_airflow.hooks.checkpoint import CheckpointHook

        reader = CheckpointHook(hook.kafka, hook.settings)
        facts = reader.facts(observation.at_ms, open_ms=OPEN_MS)
        # Without `map_indexes`, Airflow returns a list if two earlier runs have pushed a size.
        before = context["ti"].xcom_pull(task_ids=self.task_id, key=_SIZE, include_prior_dates=True, map_indexes=-1)
        if facts.size_bytes is not None:
            context["ti"].xcom_push(key=_SIZE, value=facts.size_bytes)
        topics = reader.topics(facts, observation.at_ms)
        return findings(facts, topics, observation.traffic, before, _last_drill(context))


def _last_drill(context: Context) -> LastDrill | None:
    """The newest drill that has restored the state."""
    newest = next(iter(context["inlet_events"][DRILL].ascending(False).limit(1)), None)
    return LastDrill.of(newest.extra) if newest is not None and newest.extra else None
