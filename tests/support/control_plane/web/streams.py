"""A reader of the alert stream over HTTP that behaves like a browser's EventSource."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from tests.support.waiting import until


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event, with the time at which it was read in epoch ms."""

    name: str
    data: Any
    id: str
    at_ms: float

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts of the event: one, or a bundle."""
        if self.name == "alerts":
            return list(self.data["items"])
        return [self.data] if self.name == "alert" else []


class StreamReader:
    """Reads in a thread until it is closed. `last_id` is the id from which it would resume. Entering the context raises
    HTTPStatusError if the server refuses the request.
    """

    def __init__(self, url: str, headers: dict[str, str], last_id: str | None = None) -> None:
        resume = {} if last_id is None else {"Last-Event-ID": last_id}
        self._client = httpx.Client(timeout=httpx.Timeout(180))
        self._request = self._client.build_request("GET", url, headers={**headers, **resume})
        self.last_id = last_id
        self.events: list[StreamEvent] = []
        self.opened = threading.Event()
        self._refused: httpx.HTTPStatusError | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self.opened.wait(180), "the server does not answer"
        if self._refused is not None:
            self._client.close()
            raise self._refused
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed = True
        self._client.close()

    def alerts(self) -> list[str]:
        """The ids of the alerts in the order of their events, single or bundled."""
        return [alert["alertId"] for each in list(self.events) for alert in each.alerts()]

    def await_alerts(self, count: int) -> list[str]:
        """Wait for `count` alerts and return their ids."""
        return until(lambda: found if len(found := self.alerts()) >= count else None, f"{count} alerts")

    def await_event(self, name: str) -> StreamEvent:
        """Wait for the first event of a name."""
        return until(lambda: next((each for each in list(self.events) if each.name == name), None), name)

    def _run(self) -> None:
        try:
            answer = self._client.send(self._request, stream=True)
            answer.raise_for_status()
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif not line and fields:
                    self._dispatch(fields)
                    fields = {}
        except httpx.HTTPStatusError as error:
            self._refused = error
            self.opened.set()
        except (httpx.HTTPError, RuntimeError, OSError):
            if not self._closed:
                self.events.append(StreamEvent("ended", None, "", time.time() * 1_000))

    def _dispatch(self, fields: dict[str, str]) -> None:
        self.last_id = fields.get("id", self.last_id)
        if "data" in fields and fields["event"] != "begin":
            event = StreamEvent(fields["event"], json.loads(fields["data"]), fields["id"], time.time() * 1_000)
            self.events.append(event)
        self.opened.set()
