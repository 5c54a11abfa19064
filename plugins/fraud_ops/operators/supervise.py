"""Supervises the detector in a deferred task, which wakes for seconds to raise an alarm."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fraud_ops.airflow_ui.links import publish_links
from fraud_ops.alarms import Alarm
from fraud_ops.error_mapping import airflow_errors
from fraud_ops.hooks.alarms import AlarmHook
from fraud_ops.hooks.detector import supervisor_id
from fraud_ops.operators.detector import DetectorOperator
from fraud_ops.triggers.detector import NEWS, OVER, SupervisionTrigger, is_well
from fraud_ops.verdicts.health import health
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.deploy.release import fingerprint
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.clock import now_ms

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CRASH_LOOP", "SuperviseOperator"]

CRASH_LOOP = "CRASH_LOOP"
"""The alarm for a detector that failed to start several times."""


class SuperviseOperator(DetectorOperator):
    """Supervises the detector for `window` and then succeeds, so that the next run continues. Its trigger starts the
    detector again. The detector runs on, whatever happens to this task."""

    def __init__(self, *, window: timedelta = timedelta(minutes=30), look_s: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.look_s = look_s

    def execute(self, context: Context) -> None:
        with airflow_errors():
            seen = self.hook().observe()
            verdict = health(seen, self.health_limits(), seen.at_ms, supervisor_id())
        self.log.info("%s", verdict)
        publish_links(context, seen, verdict.health)
        self._wait(context, ends_ms=now_ms() + int(self.window.total_seconds() * 1_000))

    def resume(self, context: Context, event: dict[str, Any], ends_ms: int, known: str) -> None:
        """Raise an alarm for the trigger's news, or end if the window is over or another release is declared."""
        if event["why"] != NEWS:
            self.log.info("%s", "the window is over" if event["why"] == OVER else "the declared release has changed")
            return
        verdict = Verdict.of(event["verdict"])
        self.log.info("%s; %s", verdict, event["step"])
        with airflow_errors():
            publish_links(context, self.hook().observe(), verdict.health)
            self._raise_alarm(context, verdict, known, crash_loop=event["crash_loop"])
        self._wait(context, ends_ms=ends_ms, known=event["known"])

    def _raise_alarm(self, context: Context, verdict: Verdict, known: str, *, crash_loop: bool) -> None:
        """Raise an alarm for a bad verdict, and report its end."""
        over = verdict.health is Health.HEALTHY and not is_well(known)
        if verdict.health.is_well and not over:
            return
        name = known.partition("@")[0] if over else CRASH_LOOP if crash_loop else verdict.health.value
        reasons = "; ".join(verdict.reasons)
        AlarmHook().raise_alarm(Alarm(name, self.hook().settings.detector, reasons, _link(context), resolved=over))

    def _wait(self, context: Context, *, ends_ms: int, known: str = "") -> None:
        self.defer(
            trigger=SupervisionTrigger(
                kafka_conn_id=self.kafka_conn_id,
                spark_conn_id=self.spark_conn_id,
                ends_ms=ends_ms,
                declared=self._declared(),
                known=known,
                link=_link(context),
                limits=self.health_limits().as_dict(),
                look_s=self.look_s,
            ),
            method_name="resume",
            kwargs={"ends_ms": ends_ms, "known": known},
        )

    def _declared(self) -> str:
        """The fingerprint of the declared release; empty if the declaration is invalid."""
        try:
            return fingerprint(self.hook().declared())
        except ConfigError as error:
            self.log.warning("the declared release is invalid: %s", error)
            return ""


def _link(context: Context) -> str:
    return str(getattr(context["ti"], "log_url", "") or "")
