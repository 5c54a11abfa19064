"""The operator that checks the detector's checkpoint and its state, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException

from fraud_ops.airflow_ui.links import Runbook, publish_runbook
from fraud_ops.alarms import Alarm
from fraud_ops.error_mapping import airflow_errors
from fraud_ops.operators.decisions import last_release
from fraud_ops.operators.detector import DetectorOperator
from fraud_ops.operators.standing_alarms import StandingAlarms
from fraud_ops.verdicts.checkpoint import CheckpointLimits, Grade, TopicFacts, document, findings, overall, table
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.verdict import Health

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CHECKPOINT", "CheckCheckpointOperator"]

CHECKPOINT = Asset(name="fraud_checkpoint", uri="fraud://detector/checkpoint", group="fraud")
"""The asset of the checkpoint. Each event has the findings of one check."""

_SIZE = "size_bytes"
_PART = "checkpoint"


class CheckCheckpointOperator(DetectorOperator):
    """Checks the checkpoint of the last release, and the topic of the state.

    The results are a table in the task's log, an event of `CHECKPOINT`, and standing alarms. A bad finding fails the
    task without retries. The check starts no JVM and writes neither to the checkpoint nor to Kafka.
    """

    operator_extra_links = (Runbook(),)

    def __init__(self, *, checkpoint_limits: CheckpointLimits | None = None, **kwargs: Any) -> None:
        super().__init__(outlets=[CHECKPOINT], **kwargs)
        self.checkpoint_limits = checkpoint_limits or CheckpointLimits()

    def execute(self, context: Context) -> dict[str, Any]:
        from fraud_ops.hooks.checkpoint import CheckpointHook

        hook = self.hook()
        with airflow_errors():
            observation = hook.observe()
            if observation.fault is None and not observation.intents.valid:
                self.log.info("no checkpoint to check: the detector has never run in this installation")
                publish_runbook(context, Health.STOPPED)
                return {}
            # The check needs no broker. Without one, the last release is unknown, so the declared release is checked.
            reader = CheckpointHook(
                (last_release(observation) if observation.fault is None else hook.declared_release()).checkpoint
            )
            facts = reader.facts(observation.detector)
            topics = (
                reader.topics(hook.kafka, facts, observation.at_ms)
                if observation.fault is None
                else TopicFacts(fault=observation.fault)
            )
            state = reader.state(hook.kafka, hook.settings) if observation.fault is None else None
        # Without `map_indexes`, Airflow returns a list if two earlier runs have pushed a size.
        before = context["ti"].xcom_pull(task_ids=self.task_id, key=_SIZE, include_prior_dates=True, map_indexes=-1)
        starting = (
            observation.progress is None
            or assess_detector(observation, self.health_limits(), observation.at_ms).health is Health.STARTING
        )
        traffic, limits = observation.traffic, self.checkpoint_limits
        found = findings(facts, topics, traffic, limits, before, starting=starting, state=state)
        grade, verdict = overall(found)
        self.log.info("%s\n%s", grade.name, table(found))
        publish_runbook(context, verdict)
        context["ti"].xcom_push(key=_SIZE, value=facts.size_bytes)
        context["outlet_events"][CHECKPOINT].extra = {"grade": grade.name, **document(found)}
        alarms = {
            each.alarm: Alarm(each.alarm, observation.detector, f"{each.check}: {each.value}", part=_PART)
            for each in found
            if each.alarm is not None
        }
        text = "; ".join(f"{each.check}: {each.value}" for each in found if each.grade is Grade.BAD)
        if grade is Grade.BAD:
            alarms[verdict.value] = Alarm(verdict.value, observation.detector, text, part=_PART)
        StandingAlarms(context, self.task_id).report(alarms)
        if grade is Grade.BAD:
            raise AirflowFailException(f"{verdict.value}: {text}")
        return {"grade": grade.name}
