"""Reads the control plane's stream of server-sent events: one reader, or many in a separate process.

`python -m bench.stream_reading --url U --readers 100 --alerts N` prints `ready` once all readers read, and one line
of JSON once each reader has received N alerts (or after `--patience` seconds). One reader disconnects after a third of
the alerts, waits, and reconnects with `Last-Event-ID`. The environment variable FRAUD_BENCH_TOKEN has the token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.meters.watching import quantiles

TOKEN = "FRAUD_BENCH_TOKEN"  # noqa: S105 -- the name of a variable

_AWAY_S = 3.0
_OPEN_S = 60.0
_APART_S = 0.02


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event with its data as text, and its time of receipt in epoch ms."""

    name: str
    id: str
    data: bytes
    at_ms: float

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts of the event."""
        if self.name == "alert":
            return [json.loads(self.data)]
        return list(json.loads(self.data)["items"]) if self.name == "alerts" else []

    def count(self) -> int:
        """The number of these alerts, from the end of a bundle."""
        return int(self.data.rpartition(b'"count":')[2].rstrip(b"}")) if self.name == "alerts" else self.name == "alert"


@dataclass(slots=True)
class Events:
    """Parses a stream into events. `last_id` is the position for a resume."""

    last_id: str | None = None
    _parts: list[bytes] = field(default_factory=list)

    def feed(self, text: bytes) -> list[ReceivedEvent]:
        """The events that this text completes."""
        self._parts.append(text)
        if b"\n\n" not in self._parts[-1] and not self._parts[-1].startswith(b"\n"):
            return []
        *blocks, rest = b"".join(self._parts).split(b"\n\n")
        self._parts = [rest]
        now_ms = time.time() * 1_000
        return [event for block in blocks if (event := self._event(block, now_ms)) is not None]

    def _event(self, block: bytes, now_ms: float) -> ReceivedEvent | None:
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":"))
        if b"id" in fields:
            self.last_id = fields[b"id"].decode()
        if b"data" not in fields:
            return None
        return ReceivedEvent(fields[b"event"].decode(), self.last_id or "", fields[b"data"], now_ms)


async def stream(client: httpx.AsyncClient, url: str, events: Events) -> AsyncGenerator[list[ReceivedEvent], None]:
    """Yield received events in bundles, from `events.last_id` on. The first bundle may be empty: the stream is open."""
    headers = {} if events.last_id is None else {"Last-Event-ID": events.last_id}
    async with client.stream("GET", url, headers=headers) as answer:
        if answer.status_code != httpx.codes.OK:
            raise RuntimeError(f"the stream returned {answer.status_code}: {(await answer.aread()).decode()[:300]}")
        async for text in answer.aiter_raw():
            yield events.feed(text)


class Reader:
    """A reader that stops after a number of alerts. With `saves` it saves them; with `cut` it disconnects once."""

    def __init__(self, client: httpx.AsyncClient, url: str, alerts: int, *, saves: bool, cut: bool) -> None:
        self._client, self._url, self._alerts = client, url, alerts
        self._saves, self._cut = saves, cut
        self.opened = asyncio.Event()
        self.count = 0
        self.gaps = 0
        self.received: list[ReceivedEvent] = []
        self.last_id: str | None = None

    async def run(self) -> None:
        """Read the stream until all alerts have arrived."""
        if self._cut:
            await self._read(self._alerts // 3)
            await asyncio.sleep(_AWAY_S)
        await self._read(self._alerts)

    async def _read(self, until: int) -> None:
        events = Events(self.last_id)  # like a browser, discard an event that was incomplete at the disconnect
        async with aclosing(stream(self._client, self._url, events)) as bundles:
            async for bundle in bundles:
                for event in bundle:
                    self.count += event.count()
                    self.gaps += event.name == "gap"
                    if self._saves:
                        self.received.append(event)
                self.last_id = events.last_id
                self.opened.set()
                if self.count >= until:
                    return


async def read(url: str, token: str, readers: int, alerts: int, patience_s: float) -> dict[str, float]:
    """Run `readers` readers. The first two save their alerts, and the second one disconnects once."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(limits=limits, timeout=_OPEN_S, headers=headers, trust_env=False) as client:
        all_readers = [Reader(client, url, alerts, saves=n < 2, cut=n == 1) for n in range(readers)]
        tasks = []
        for each in all_readers:
            tasks.append(asyncio.create_task(each.run()))
            await asyncio.sleep(_APART_S)
        async with asyncio.timeout(_OPEN_S):
            await asyncio.gather(*(each.opened.wait() for each in all_readers))
        print("ready", flush=True)
        _, late = await asyncio.wait(tasks, timeout=patience_s)
        for task in late:
            task.cancel()
        failed = [str(task.exception()) for task in tasks if task not in late and task.exception() is not None]
        if failed:
            raise RuntimeError(f"{len(failed)} readers failed: {failed[0]}")
    return summary(all_readers, alerts)


def summary(readers: Sequence[Reader], alerts: int) -> dict[str, float]:
    """Return the readers' agreement, the alerts that the disconnected reader missed, and latencies (ms)."""
    whole, cut = ([alert for event in each.received for alert in event.alerts()] for each in readers[:2])
    ids, seen = [alert["alertId"] for alert in whole], [alert["alertId"] for alert in cut]
    late = [event.at_ms - alert["appendTime"] for event in readers[0].received for alert in event.alerts()]
    positions = Counter(each.last_id for each in readers)
    return {
        "alerts": alerts,
        "same_position": max(positions.values()),
        "told_all": sum(each.count == alerts for each in readers),
        "in_order": float(seen == ids),
        "missed": len(set(ids) - set(seen)) + alerts - len(set(ids)),
        "twice": len(seen) - len(set(seen)) + len(ids) - len(set(ids)),
        "gaps": sum(each.gaps for each in readers),
        **quantiles("told", late, "p50", "p95", "max"),
        "reader_cpu_s": time.process_time(),
    }


def main() -> int:
    """Read the stream, and print a summary."""
    parser = argparse.ArgumentParser(prog="python -m bench.stream_reading", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--readers", type=int, required=True)
    parser.add_argument("--alerts", type=int, required=True, help="number of alerts")
    parser.add_argument("--patience", type=float, default=120)
    options = parser.parse_args()
    found = asyncio.run(read(options.url, os.environ[TOKEN], options.readers, options.alerts, options.patience))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
