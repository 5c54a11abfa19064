"""Raises an alarm for a failed task or a missed deadline, and reports the end of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier
from asgiref.sync import sync_to_async

from fraud_ops.alarms import Alarm, RaisedAlarm
from fraud_rules_airflow.hooks.connections import KAFKA

if TYPE_CHECKING:
    from airflow.sdk import Context


class FraudAlarm(BaseNotifier):
    """Raises the alarm `name`, with `said` and the error as its text. For `on_failure_callback` and deadlines."""

    template_fields = ("said",)

    def __init__(
        self,
        name: str,
        said: str = "",
        context: Context | None = None,
        *,
        kafka_conn_id: str = KAFKA,
        **extra: Any,
    ) -> None:
        super().__init__(context)
        self.name = name
        self.said = said
        self.kafka_conn_id = kafka_conn_id
        self.extra = extra

    def notify(self, context: Context) -> None:
        from fraud_rules_airflow.hooks.alarms import AlarmHook

        AlarmHook(self.kafka_conn_id).raise_alarm(self.alarm(context))

    async def async_notify(self, context: Context) -> None:
        # A plain thread does not work: requests for Airflow's variables and connections go through this event loop.
        await sync_to_async(self.notify)(context)

    def alarm(self, context: Context) -> Alarm:
        """The alarm for a task instance, or for a run that missed its deadline."""
        ti = context.get("ti") or context.get("task_instance")
        error = context.get("exception")
        text = " ".join(str(each) for each in (self.said, error or "") if str(each)).strip()
        subject = f"{ti.dag_id}.{ti.task_id} ({ti.run_id})" if ti is not None else str(context.get("dag_run", ""))
        run = ti if ti is not None else context.get("dag_run")
        part = ".".join(str(getattr(run, each)) for each in ("dag_id", "task_id") if getattr(run, each, None))
        link = getattr(ti, "log_url", "") or ""
        return Alarm(self.name, "detector", f"{subject} {text}".strip(), source=link, part=part)


class FraudAlarmEnd(BaseNotifier):
    """Reports the end of the alarm `name` of a task that succeeds after a failure. For `on_success_callback`."""

    def __init__(self, name: str, context: Context | None = None, *, kafka_conn_id: str = KAFKA, **extra: Any) -> None:
        super().__init__(context)
        self.name = name
        self.kafka_conn_id = kafka_conn_id
        self.extra = extra

    def notify(self, context: Context) -> None:
        ti, dag_run = context["ti"], context["dag_run"]
        # A run of a partition or of an asset has no logical date, so Airflow cannot name the run before it.
        before = (
            None
            if dag_run.logical_date is None
            else ti.get_previous_ti(map_index=-1 if ti.map_index is None else ti.map_index)
        )
        failed = before is not None and before.state == "failed"
        if failed or dag_run.logical_date is None or ti.try_number > 1:
            from fraud_rules_airflow.hooks.alarms import AlarmHook

            hook = AlarmHook(self.kafka_conn_id)
            said, part = f"{ti.dag_id}.{ti.task_id} ({ti.run_id}) has succeeded", f"{ti.dag_id}.{ti.task_id}"
            end = Alarm(self.name, "detector", said, resolved=True, part=part)
            # The failure itself may have been sent directly, so that the control plane does not know it.
            hook.append([RaisedAlarm(end, tuple(hook.receivers()) if failed else ())])
