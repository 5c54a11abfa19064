"""Encodes events as server-sent events, and alerts as JSON.

The JSON of an alert is the published JSON with more members. `AlertEncoder` appends them without decoding the JSON.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import lru_cache

import msgspec
from pydantic import TypeAdapter

from fraud_control.domain.canonical import decoded
from fraud_control.domain.errors import LimitReached
from fraud_control.domain.masking import Mask
from fraud_control.domain.read_models import Mark, RuleChanged
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.events import (
    Event,
    FeedAlert,
    FeedCorrection,
    FeedOperation,
    FeedRuleChange,
    with_snooze,
)
from fraud_control.feed.hub import EventEncoder, Hub, Seat
from fraud_control.feed.memory import FeedMemory
from fraud_control.feed.place import FeedPlace
from fraud_control.web.answer import encode
from fraud_control.web.convert import activation_of
from fraud_control.web.load.rates import Throttle
from fraud_control.web.problems import WebError

_RETRY_MS = 1_000
_DATA = b"data: "
_RULE_CHANGED = TypeAdapter(RuleChanged)


class AlertEncoder:
    """Encodes alerts for the API."""

    def __init__(self, memory: FeedMemory) -> None:
        self._memory = memory

    def encode(self, alert: FeedAlert, mark: Mark | None = None, known: tuple[str, int] | None = None) -> bytes:
        """Encode an alert as JSON (the schema `Alert`). `known` is the kind and time of a correction that memory may
        lack.
        """
        facts = alert.facts
        correction = self._memory.correction(facts.alert_id)
        correction_json = b""
        if alert.added_ms is not None:
            correction_json = b'{"kind":"ADDED","time":%d}' % alert.added_ms
        if known is not None:
            correction_json = encode({"kind": known[0], "time": known[1]})
        if correction is not None:
            correction_json = encode({"kind": correction.kind, "time": correction.time_ms})
        more = b',"appendTime":%d,"position":"%b","correction":%b,"mark":%b,"snoozed":%b}' % (
            alert.append_ms,
            encode_position(alert.position).encode(),
            correction_json or b"null",
            b"null" if mark is None else _json(mark),
            b"true" if alert.snoozed else b"false",
        )
        return alert.json[:-1] + more


class ServerSentEvents(EventEncoder):
    """Encodes server-sent events. The JSON of an event has no raw line breaks, so no text can end its `data` line."""

    def __init__(self, alerts: AlertEncoder, snoozing: Callable[[], Snoozing]) -> None:
        self._alerts = alerts
        self._snoozing = snoozing

    def refresh(self, events: Sequence[Event]) -> Sequence[Event]:
        snoozing = self._snoozing()
        return [with_snooze(event, snoozing) for event in events]

    def encode(self, events: Sequence[Event], place: FeedPlace) -> bytes:
        event = events[0]
        match event:
            case FeedAlert() if len(events) == 1:
                return _event("alert", self._alerts.encode(event), place)
            case FeedAlert():
                items = b",".join(self._alerts.encode(each) for each in events if isinstance(each, FeedAlert))
                return _event("alerts", b'{"items":[%b],"count":%d}' % (items, len(events)), place)
            case FeedCorrection():
                return _event("correction", self._correction(event), place)
            case FeedOperation():
                return _event("operation", _json(activation_of(event.operation)), place)
            case FeedRuleChange():
                return _event("rules", _RULE_CHANGED.dump_json(event.changed, by_alias=True), place)

    def gap(self, since: FeedPlace, place: FeedPlace) -> bytes:
        return _event("gap", encode({"from": str(since)}), place)

    def begin(self, place: FeedPlace) -> bytes:
        return b"retry: %d\n" % _RETRY_MS + _event("begin", b"{}", place)

    def ping(self) -> bytes:
        return b": ping\n\n"

    def _correction(self, event: FeedCorrection) -> bytes:
        alert = event.alert
        return encode(
            {
                "alertId": event.alert_id,
                "kind": event.kind,
                "time": event.time_ms,
                "ruleId": event.rule_id,
                "alert": None if alert is None else msgspec.Raw(self._alerts.encode(alert)),
            }
        )


async def reserve_seat(hub: Hub, throttle: Throttle, user: str, most: int) -> Seat:
    """Reserve a seat of the stream. A refusal is delayed, because pages connect again at once.

    Raises WebError 503 without a free seat, and LimitReached if the user has `most` seats.
    """
    try:
        seat = hub.reserve(user, most)
    except LimitReached:
        await throttle.delay_refusal(user)
        raise
    if seat is None:
        await throttle.delay_refusal(user)
        raise WebError(503, "the event stream has too many readers; try again later")
    return seat


async def masked_events(mask: Mask, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Mask the values in the JSON of events."""
    async for text in events:
        yield b"\n".join(_masked_line(mask, line) for line in text.split(b"\n"))


@lru_cache(maxsize=16)  # the readers of the stream get the same events at about the same time
def _masked_line(mask: Mask, line: bytes) -> bytes:
    return _DATA + encode(mask(decoded(line[len(_DATA) :]))) if line.startswith(_DATA) else line


def encode_position(position: tuple[int, int, int]) -> str:
    """Encode the position of an alert as text. `parse_position` parses it."""
    return "{}.{}.{}".format(*position)


def parse_position(text: str) -> tuple[int, int, int] | None:
    """Parse the text of `encode_position`; None for any other text."""
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


def _event(name: str, data: bytes, place: FeedPlace) -> bytes:
    return b"event: %b\nid: %b\ndata: %b\n\n" % (name.encode(), str(place).encode(), data)


def _json(schema: object) -> bytes:
    return encode(schema.model_dump(by_alias=True))  # type: ignore[attr-defined]
