"""Checks the archive: whether it keeps ahead of retention, and which published days have received later data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import DagRunTriggerException

from fraud_ops.alarms import Alarm
from fraud_rules.runtime.clock import now_ms
from fraud_rules_airflow.airflow_ui.links import Runbook
from fraud_rules_airflow.archive_place import archive_store
from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.hooks.connections import KAFKA, connection, kafka_of
from fraud_rules_airflow.operators.standing_alarms import StandingAlarms

if TYPE_CHECKING:
    from airflow.sdk import Context

DAYS_MISSED: Final = "DAYS_MISSED"


class ArchiveAheadOperator(BaseOperator):
    """Fails with ArchiveBehind when half of a topic's retention has passed, so that there is time to react."""

    operator_extra_links = (Runbook(),)

    def __init__(self, *, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> dict[str, float]:
        """Return, by topic, the share of its retention that has passed since the archive was complete."""
        from fraud_rules.batch.archive.lag import check_kept, used_share
        from fraud_rules.configuration.project import Project
        from fraud_rules.configuration.settings import DetectorSettings
        from fraud_rules.errors import ArchiveBehind
        from fraud_rules.kafka.topics import retentions_ms

        with airflow_errors(context):
            project = Project.find()
            settings = DetectorSettings.load(project.config / "detector.yaml")
            manifest = archive_store().latest()
            kafka = kafka_of(connection(self.kafka_conn_id))
            check_kept(kafka, settings.topics, manifest)
            shares = used_share(manifest, retentions_ms(kafka, sorted(manifest.ends)), now_ms())
            late = [f"{topic}: {share:.0%}" for topic, share in shares.items() if share > 0.5]
            if late:
                raise ArchiveBehind(
                    f"share of the retention that has passed since the last archive run: {', '.join(late)}"
                )
        return shares


class DaysEvaluatedOperator(BaseOperator):
    """Raises an alarm while archived days that ended more than a day ago have no result.

    It runs with the archive, so that it also finds the days of a nightly DAG that is paused or never ends.
    """

    operator_extra_links = (Runbook(),)

    def __init__(self, *, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> list[str]:
        """Return the missed days."""
        from fraud_rules.batch.reevaluation.run import missed_days
        from fraud_rules.configuration.project import Project
        from fraud_rules.configuration.settings import DetectorSettings

        with airflow_errors(context):
            settings = DetectorSettings.load(Project.find().config / "detector.yaml")
            missed = [str(day) for day in missed_days(archive_store(), settings, now_ms())]
        found = {}
        if missed:
            said = f"{len(missed)} archived days have no evaluation: {missed[0]} to {missed[-1]}"
            found[DAYS_MISSED] = Alarm(DAYS_MISSED, settings.detector, said)
        StandingAlarms(context, self.task_id, self.kafka_conn_id).report(found)
        return missed


class DaysDueOperator(BaseOperator):
    """Returns the days that need an evaluation: they have received data since they were published, were provisional
    and are complete, or were missed."""

    operator_extra_links = (Runbook(),)

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return each day with the time of its last evaluation, in epoch ms; 0 for a missed day."""
        from fraud_rules.batch.reevaluation.run import days_due
        from fraud_rules.configuration.project import Project
        from fraud_rules.configuration.settings import DetectorSettings
        from fraud_rules.model.schema import TransactionSchema

        if not context["params"].get("requeue", True):
            return []
        with airflow_errors(context):
            config = Project.find().config
            settings = DetectorSettings.load(config / "detector.yaml")
            schema = TransactionSchema.load(config / "schema.yaml")
            due = days_due(archive_store(), schema, settings, now_ms())
        self.log.info("days to evaluate: %s", ", ".join(str(each.day) for each in due) or "none")
        return [{"day": str(each.day), "evaluated_ms": each.evaluated_ms} for each in due]


class QueueDayOperator(BaseOperator):
    """Starts a run of its own DAG for a day. TriggerDagRunOperator does the same, but its import is slow.

    A day is queued once per night, however many runs find it due.
    """

    template_fields: Sequence[str] = ("day", "evaluated_ms")

    def __init__(self, *, day: str, evaluated_ms: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.day = day
        self.evaluated_ms = evaluated_ms

    def execute(self, context: Context) -> None:
        """Start the run."""
        from fraud_rules.model.day import Day

        raise DagRunTriggerException(
            trigger_dag_id=self.dag_id,
            dag_run_id=f"again-{self.day}-after-{self.evaluated_ms}-on-{Day.today()}",
            conf={"day": self.day, "requeue": False},
            reset_dag_run=False,
            skip_when_already_exists=True,
            wait_for_completion=False,
            allowed_states=[],
            failed_states=[],
            poke_interval=60,
            deferrable=False,
            note=self.day + (" has received data since it was evaluated" if int(self.evaluated_ms) else " was missed"),
        )
