"""A detector that evaluates generated streams. The test writes its logs, with the append times of the streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis.strategies import SearchStrategy

from fraud_rules.logs.recorder import record_run
from fraud_rules.model.schema import TransactionSchema
from tests.support.kafka.timed_topics import Logs
from tests.support.processes.running_detector import Installation
from tests.support.recovery.watch import Watch
from tests.support.streams.runs import drawn
from tests.support.streams.spans import Document, Outputs, Span
from tests.support.waiting import MOMENT_S, until

DAY_MS = 86_400_000
LISTS = ("longs", "texts", "more")
MAPS = ("rates", "names", "codes")
_TIME = re.compile(r"(?<![\d.])1[1-7]\d{11}(?![\d.])")
_FORGET: list[dict[str, Any]] = [
    {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"},
    *({"listName": name, "listOperation": "DELETE"} for name in LISTS),
    *({"mapName": name, "mapOperation": "DELETE"} for name in MAPS),
]

Step = Mapping[str, Any]


def streams_in_time(strategies: Mapping[int, SearchStrategy[Any]]) -> Iterator[tuple[int, list[Step]]]:
    """Yield the seeds of generated streams and their steps, by time. A stream that does not start a day after the
    previous one is moved by whole days. Stops are clears, because the detector runs on."""
    texts = {seed: json.dumps(drawn(seed, strategy)["steps"]) for seed, strategy in strategies.items()}
    free_ms = 0
    for seed in sorted(texts, key=lambda seed: _start_ms(texts[seed])):
        days = max(0, -(-(free_ms - _start_ms(texts[seed])) // DAY_MS))
        text = _days_later(texts[seed].replace("CLEAR_STATE_ALL_STOP", "CLEAR_STATE_ALL"), days)
        free_ms = _start_ms(text) + DAY_MS
        yield seed, json.loads(text)


def _start_ms(steps: str) -> int:
    return min(int(step["at"]) for step in json.loads(steps))


def _days_later(steps: str, days: int) -> str:
    return _TIME.sub(lambda time: str(int(time[0]) + days * DAY_MS), steps)


class StreamSite:
    """The logs, the progress and the outputs of one detector."""

    def __init__(self, installation: Installation, watch: Watch) -> None:
        self.installation = installation
        self._watch = watch
        self._logs = Logs(installation.topics)

    def append(self, steps: Sequence[Step]) -> None:
        """Append these steps. Return once the broker has them."""
        for step in steps:
            if "rule" in step:
                self._logs.append_rule(json.dumps(step["rule"]).encode(), step["at"])
            else:
                self._logs.append(json.dumps(step["tx"]).encode(), step["at"], step.get("partition", 0))
        self._logs.flush()

    def append_end(self, steps: Sequence[Step]) -> None:
        """Delete all rules, lists and maps after these steps."""
        at_ms = max(step["at"] for step in steps) + 1
        self.append([{"at": at_ms, "rule": record} for record in _FORGET])

    def await_evaluated(self) -> None:
        """Return once the detector has evaluated all records."""
        until(lambda: self._watch.has_read(self._logs.ends, self._logs.rules_end), "a batch", every_s=MOMENT_S)

    def span_from(self, start: Span | None = None) -> Span:
        """The records from the end of another span up to now."""
        versions = range(start.versions.stop if start else 0, self._logs.rules_end)
        starts = {partition: offsets.stop for partition, offsets in start.offsets.items()} if start else {}
        return Span(versions, {at: range(starts.get(at, 0), end) for at, end in sorted(self._logs.ends.items())})

    def recorded(self) -> Document:
        """The logs and the recorded batches as a document of `fraud streams replay`."""
        schema = TransactionSchema.load(self.installation.schema)
        run = record_run(self.installation.topics.kafka, self.installation.settings, schema)
        rules = [{"at": each.append_ms, "rule": (each.value or b"").decode()} for each in run.rules]
        rows = [
            {"at": each.append_ms, "partition": each.partition, "tx": json.loads(each.value or b"{}")}
            for each in run.transactions
        ]
        batches = [
            {
                "offsets": {"transactions": {str(at): end for at, end in each.ends.items()}},
                "pin": each.pin,
                "refused": {
                    str(version): [[reason.field, reason.message] for reason in reasons]
                    for version, reasons in each.rejections.items()
                },
                "warmUps": [
                    {"version": warm.version, "ends": {str(at): end for at, end in warm.ends.items()}}
                    for warm in each.warm_ups
                ],
            }
            for each in run.batches
        ]
        settings = {
            "maxOutOfOrdernessMs": run.settings.max_out_of_orderness_ms,
            "futureToleranceMs": run.settings.future_tolerance_ms,
            "detailMinutes": run.settings.detail_minutes,
        }
        return {"keyGroups": run.key_groups, "settings": settings, "steps": [*rules, *rows], "batches": batches}

    def published(self) -> Outputs:
        """The outputs of the detector."""
        return Outputs.read(self.installation.topics, TransactionSchema.load(self.installation.schema))
