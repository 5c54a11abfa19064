"""Looks after the detector for a while: deferred, and awake for seconds when somebody is to be told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fraud_ops.airflow_ui.links import publish_links
from fraud_ops.alarms import Alarm
from fraud_ops.hooks.alarms import AlarmHook
from fraud_ops.hooks.detector import supervisor_id
from fraud_ops.named import named
from fraud_ops.operators.detector import DetectorOperator
from fraud_ops.triggers.detector import NEWS, OVER, SupervisionTrigger, is_well
from fraud_ops.verdicts.health import Health, Verdict, health
from fraud_rules.deploy.release import fingerprint
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.clock import now_ms

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CRASH_LOOP", "SuperviseOperator"]

CRASH_LOOP = "CRASH_LOOP"
"""The alarm of a detector that was started several times in vain."""


class SuperviseOperator(DetectorOperator):
    """Supervises for `window`, then succeeds: the next run goes on. Whatever becomes of it, the detector runs. What is
    to be done meanwhile, its trigger does."""

    def __init__(self, *, window: timedelta = timedelta(minutes=30), look_s: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.look_s = look_s

    def execute(self, context: Context) -> None:
        with named():
            seen = self.hook().observe()
            verdict = health(seen, self.health_limits(), seen.at_ms, supervisor_id())
        self.log.info("%s", verdict)
        publish_links(context, seen, verdict.health)
        self._wait(context, ends_ms=now_ms() + int(self.window.total_seconds() * 1_000))

    def resume(self, context: Context, event: dict[str, Any], ends_ms: int, known: str) -> None:
        """Tell what the trigger has found and done, or end when the time is over, or something else is declared."""
        if event["why"] != NEWS:
            self.log.info("%s", "the time is over" if event["why"] == OVER else "what is declared has changed")
            return
        verdict = Verdict.of(event["verdict"])
        self.log.info("%s; %s", verdict, event["step"])
        with named():
            publish_links(context, self.hook().observe(), verdict.health)
            self._tell(context, verdict, known, crash_loop=event["crash_loop"])
        self._wait(context, ends_ms=ends_ms, known=event["known"])

    def _tell(self, context: Context, verdict: Verdict, known: str, *, crash_loop: bool) -> None:
        """Alarm for what is not well, and say when it is over."""
        over = verdict.health is Health.HEALTHY and not is_well(known)
        if verdict.health.is_well and not over:
            return
        name = known.partition("@")[0] if over else CRASH_LOOP if crash_loop else verdict.health.value
        said = "; ".join(verdict.reasons)
        AlarmHook().raise_alarm(Alarm(name, self.hook().settings.detector, said, _link(context), resolved=over))

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
        """The fingerprint declared now; empty where it cannot be told."""
        try:
            return fingerprint(self.hook().declared())
        except ConfigError as error:
            self.log.warning("what is declared cannot be told: %s", error)
            return ""


def _link(context: Context) -> str:
    return str(getattr(context["ti"], "log_url", "") or "")
