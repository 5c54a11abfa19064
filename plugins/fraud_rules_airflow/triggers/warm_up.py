"""Starts a run of `fraud_warm_up` when a rule requests a warm-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from fraud_rules.errors import BrokerUnavailable
from fraud_rules_airflow.hooks.detector import FraudDetectorHook

if TYPE_CHECKING:
    from fraud_rules.logs.open_warm_ups import OpenRequests
    from fraud_rules.logs.rule_status import RuleOperation


class WarmUpTrigger(BaseEventTrigger):
    """Watches `rule-operations`. Fires for new requests, and again every `repeat_s` while requests are open, because a
    run may have failed. The event has the versions of the rule records."""

    def __init__(self, kafka_conn_id: str, look_s: float = 5.0, repeat_s: float = 600.0) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id
        self.look_s = look_s
        self.repeat_s = repeat_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__qualname__}", {
            "kafka_conn_id": self.kafka_conn_id,
            "look_s": self.look_s,
            "repeat_s": self.repeat_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from fraud_rules.logs.open_warm_ups import OpenRequests

        announced, announced_s = frozenset[int](), time.monotonic()
        while True:
            hook = FraudDetectorHook(self.kafka_conn_id)
            await hook.resolve_kafka()
            with closing(OpenRequests(hook.kafka, hook.settings)) as requests:
                while (waiting := await self._poll(requests)) is not None:
                    due = time.monotonic() >= announced_s + self.repeat_s
                    if not waiting.keys() <= announced or (waiting and due):
                        announced_s = time.monotonic()
                        yield TriggerEvent({"versions": sorted(waiting)})
                    announced = frozenset(waiting)
                    await asyncio.sleep(self.look_s)
            await asyncio.sleep(self.look_s)

    async def _poll(self, requests: OpenRequests) -> Mapping[int, RuleOperation] | None:
        """The open requests. None if Kafka does not answer: the topics may not exist yet."""
        try:
            return await asyncio.to_thread(requests.poll)
        except BrokerUnavailable as error:
            self.log.warning("%s", error)
            return None
