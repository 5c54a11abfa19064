"""Supervises the detector in a deferred task. The task resumes only for seconds, to raise an alarm."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from fraud_ops.alarms import Alarm
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.deploy.release import fingerprint
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.clock import now_ms
from fraud_rules_airflow.airflow_ui.links import publish_links
from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.hooks.detector import supervisor_id
from fraud_rules_airflow.operators.detector import DECLARED, DetectorOperator
from fraud_rules_airflow.operators.mixed_releases import report_mixed_releases
from fraud_rules_airflow.operators.standing_alarms import StandingAlarms
from fraud_rules_airflow.triggers.detector import DECLARED as DECLARED_ANEW
from fraud_rules_airflow.triggers.detector import DIFFERENT, OVER, SupervisionTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

CRASH_LOOP = "CRASH_LOOP"
"""The name of the alarm for a detector that failed to start several times in a row."""

_ENDED: Final = "ended_early"
_REMEMBERED: Final = 8


_ENDS = frozenset({Health.HEALTHY, Health.STOPPED})
"""The verdicts with which a run ends the alarms of the run before it."""


class SuperviseOperator(DetectorOperator):
    """Supervises the detector for `window` and then succeeds. The next run continues the supervision. The trigger of
    the task starts a dead or stalled detector again. The end of the task, even by a failure, does not stop the
    detector.

    The task also ends when the declared release is no longer the one that the task `deploy_task_id` of this run has
    considered: the declaration can change at any time, also before this task starts or while it raises an alarm. If the
    next deployment then considers the same release again, nothing has changed: the hosts of the triggerer and of the
    worker differ. The task then raises MIXED_RELEASES and does not end.
    """

    def __init__(
        self, *, deploy_task_id: str, window: timedelta = timedelta(minutes=30), look_s: float = 2.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.deploy_task_id = deploy_task_id
        self.window = window
        self.look_s = look_s

    def execute(self, context: Context) -> None:
        with airflow_errors():
            observation = self.hook().observe()
            verdict = assess_detector(observation, self.health_limits(), observation.at_ms, supervisor_id())
        self.log.info("%s", verdict)
        publish_links(context, observation, verdict.health)
        if verdict.health in _ENDS:
            self._report(context, verdict)
        declared = context["ti"].xcom_pull(task_ids=self.deploy_task_id, key=DECLARED)
        if declared is None:
            declared = self._declared_fingerprint()
        self._defer(
            context,
            ends_ms=now_ms() + int(self.window.total_seconds() * 1_000),
            declared=declared,
            settled=declared in self._ended(context),
        )

    def resume(
        self,
        context: Context,
        event: dict[str, Any],
        ends_ms: int,
        declared: str,
        known: str,
        settled: bool = False,
    ) -> None:
        """Report a new verdict or a difference. End if the window is over or the declared release has
        changed.
        """
        own = event.get("own", "")
        if event["why"] == DECLARED_ANEW:
            self.log.info("the declared release has changed from %s to %s", declared, own)
            ended = [each for each in self._ended(context) if each != declared]
            context["ti"].xcom_push(key=_ENDED, value=[*ended, declared][-_REMEMBERED:])
            return
        if event["why"] == OVER:
            self.log.info("the window is over")
            if own in ("", declared):
                report_mixed_releases(context, self.task_id, self.kafka_conn_id, self.hook().settings.detector, None)
            return
        if event["why"] == DIFFERENT:
            said = f"the worker declares release {declared}, the triggerer on {event['host']} declares {own}"
            self.log.warning("%s", said)
            with airflow_errors():
                report_mixed_releases(context, self.task_id, self.kafka_conn_id, self.hook().settings.detector, said)
            self._defer(context, ends_ms=ends_ms, declared=declared, known=known, own=own, settled=settled)
            return
        verdict = Verdict.of(event["verdict"])
        self.log.info("%s; %s", verdict, event["step"])
        with airflow_errors():
            publish_links(context, self.hook().observe(), verdict.health)
            self._report(context, verdict, crash_loop=event["crash_loop"])
        self._defer(context, ends_ms=ends_ms, declared=declared, known=event["known"], own=own, settled=settled)

    def _report(self, context: Context, verdict: Verdict, *, crash_loop: bool = False) -> None:
        """Report the alarm of a verdict, and the end of the alarms of other verdicts, also of an earlier run."""
        found = {}
        if not verdict.health.is_well:
            name = CRASH_LOOP if crash_loop else verdict.health.value
            found[name] = Alarm(name, self.hook().settings.detector, "; ".join(verdict.reasons), _link(context))
        StandingAlarms(context, self.task_id, self.kafka_conn_id).report(found, ended=str(verdict))

    def _defer(
        self, context: Context, *, ends_ms: int, declared: str, settled: bool, known: str = "", own: str = ""
    ) -> None:
        self.defer(
            trigger=SupervisionTrigger(
                kafka_conn_id=self.kafka_conn_id,
                spark_conn_id=self.spark_conn_id,
                ends_ms=ends_ms,
                declared=declared,
                known=known,
                own=own,
                settled=settled,
                link=_link(context),
                limits=asdict(self.health_limits()),
                look_s=self.look_s,
            ),
            method_name="resume",
            kwargs={"ends_ms": ends_ms, "declared": declared, "known": known, "settled": settled},
        )

    def _ended(self, context: Context) -> list[str]:
        """The declared releases of the last runs that ended early."""
        # Without `map_indexes`, Airflow returns a list of values if two earlier runs have pushed one.
        ti = context["ti"]
        return ti.xcom_pull(task_ids=self.task_id, key=_ENDED, include_prior_dates=True, map_indexes=-1) or []

    def _declared_fingerprint(self) -> str:
        """The fingerprint of the declared release; empty if the declaration is invalid."""
        try:
            return fingerprint(self.hook().declared_release())
        except ConfigError as error:
            self.log.warning("the declared release is invalid: %s", error)
            return ""


def _link(context: Context) -> str:
    return str(getattr(context["ti"], "log_url", "") or "")
