"""Reports alarms to the topic `alarms`.

The control plane reads the topic, decides which reports are news, and delivers these. A task sends an alarm itself only
if it cannot reach Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from fraud_ops.alarms import Alarm, RaisedAlarm, encode_alarm
from fraud_ops.delivery.alarms import AlarmSender
from fraud_ops.delivery.connections import Connection
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.kafka.record_writer import append_records
from fraud_rules_airflow.airflow_ui.address import base_url
from fraud_rules_airflow.hooks.connections import KAFKA, connection, kafka_of


class AlarmHook(BaseHook):
    """Reports alarms, and sends them without Kafka."""

    def __init__(self, kafka_conn_id: str = KAFKA) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def raise_alarm(self, alarm: Alarm) -> None:
        """Report an alarm to the topic `alarms`. Without Kafka, send it directly. Never raises, so that the caller can
        continue.
        """
        if not self.append([RaisedAlarm(alarm)]):
            self.send(alarm)

    def append(self, reports: Sequence[RaisedAlarm]) -> bool:
        """Append reports to the topic `alarms`. Return whether Kafka has all of them. Never raises."""
        try:
            settings = DetectorSettings.load(Project.find().config / "detector.yaml")
            records = [(each.alarm.name.encode(), encode_alarm(each)) for each in reports]
            append_records(kafka_of(connection(self.kafka_conn_id)), settings.topics.alarms, records)
        except FraudError as error:
            self.log.warning("alarms cannot be reported to the control plane: %s", error)
            return False
        return True

    def send(self, alarm: Alarm) -> list[str]:
        """Send an alarm directly (see `AlarmSender.send`)."""
        return self._sender().send(alarm)

    def receivers(self) -> list[str]:
        """The names of the connections that exist, which receive alarms."""
        return self._sender().receivers()

    def _sender(self) -> AlarmSender:
        return AlarmSender(self._find, base_url())

    def _find(self, conn_id: str) -> Connection | None:
        try:
            found = self.get_connection(conn_id)
        except AirflowNotFoundException:
            return None
        return Connection(
            conn_id,
            str(found.host or ""),
            found.port,
            str(found.login or ""),
            str(found.password or ""),
            found.extra_dejson,
        )
