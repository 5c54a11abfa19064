"""Streams with warm-ups, batch by batch: the histories that each batch adds, also as prepared files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.prepared import PreparedHistory, prepare_history
from fraud_rules.engine.state.store import MappedViews
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.warm_up import request_at
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording
from fraud_rules.replay.warm_up import histories_of
from tests.support.conformance import load_schema
from tests.support.streams.features import ENTITIES, with_any_features
from tests.support.streams.generated import warmed_documents
from tests.support.streams.runs import drawn

_NULLABLE = load_schema("nullable")
_ACCOUNTS = replace(_NULLABLE, entities=ENTITIES)


def outputs(result: Any) -> list[tuple[Any, ...]]:
    """The written outputs of a batch."""
    return [
        ([alert.json for alert in output.alerts], [late.json for late in output.late], output.duplicates)
        for output in result.outputs
    ]


class _Unstored:
    """A durable store whose chunks are not read."""

    def send(self, name: str, content: bytes) -> None: ...

    def flush(self) -> None: ...


class WarmedStream:
    """A stream with warm-ups: its batches, and the histories that each adds, by key group."""

    def __init__(self, document: Mapping[str, Any], folder: Path, schema: TransactionSchema = _NULLABLE) -> None:
        self.schema = schema
        self.recording = Recording.of_document(document)
        self.settings = settings_of_recording(self.recording, DetectorSettings())
        self.cuts = list(batch_inputs(self.recording, self.schema, self.settings))
        self.folder = folder
        self._prepared = 0

    @classmethod
    def generated(cls, seed: int, folder: Path) -> Self:
        """The stream of a seed, with any difficulty. Every second stream has all members of rules."""
        if seed % 2:
            return cls(drawn(seed, with_any_features(warmed_documents())), folder, _ACCOUNTS)
        return cls(drawn(seed, warmed_documents()), folder)

    def histories(self, cut: Any) -> list[Mapping[int, WarmHistory]]:
        """The histories that a batch adds."""
        requests = [(request_at(cut.timeline, each.version), each.ends) for each in cut.warm_ups]
        return [
            histories_of(request, ends, self.recording.transactions, self.schema, self.settings)
            for request, ends in requests
            if request is not None
        ]

    def prepared(self, cut: Any, histories: list[Mapping[int, WarmHistory]]) -> list[Mapping[int, WarmHistory]]:
        """The same histories, prepared under the rules of the batch."""
        return [{group: self._prepare(cut, each) for group, each in found.items()} for found in histories]

    def _prepare(self, cut: Any, history: WarmHistory) -> WarmHistory:
        grouping = cut.timeline.latest.groupings.get(history.fields)
        if grouping is None or grouping.long_rules:
            return history
        self._prepared += 1
        folder = self.folder / f"prepared-{self._prepared}"
        prepare_history(history.version, grouping, history.rows, history.begins_ms, self.schema, folder, _Unstored())
        prepared = PreparedHistory.find(folder)
        assert prepared is not None
        return WarmHistory.of_prepared(prepared, lambda: history.rows)

    def plain(self) -> Replay:
        """Engines with their state in memory."""
        return Replay(self.schema, self.settings)

    def mapped(self) -> Replay:
        """Engines with their state in files."""
        return Replay(self.schema, self.settings, MappedViews(self.folder / "views", self.schema))
