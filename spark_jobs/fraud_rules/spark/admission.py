"""Whether a start of the detector may go on: whose the checkpoint is, whether it is whole, and what is written already.

What is mistaken for sure is refused before any other detector is fenced, so that a wrong start ends none that works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fraud_rules.deployment.work import WorkPhase
from fraud_rules.errors import CheckpointForeign, DetectorStopped, Superseded
from fraud_rules.kafka.deployment_log import read_intent_log
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.rule_log import RuleLog
from fraud_rules.kafka.writer import BatchWriter, last_record
from fraud_rules.spark import checkpoint
from fraud_rules.spark.job import DetectorJob
from fraud_rules.spark.marker import Beginning, Marker, adopt, beginning_of, check_fits, check_query
from fraud_rules.spark.pins import PinStore
from fraud_rules.spark.rebuild import begin_rebuild, check_history, finish_rebuild, is_carried_out
from fraud_rules.spark.rule_desk import RuleDesk
from fraud_rules.spark.storage import Folder
from fraud_rules.spark.work import WorkReport

__all__ = ["Admitted", "admit", "check", "stopped_message"]


@dataclass(frozen=True, slots=True)
class Admitted:
    """What a start that may go on works with. `marker` is None when nothing of this checkpoint's is written; `restores`
    says that the first batch, not finished yet, has to take the state of before in."""

    desk: RuleDesk
    writer: BatchWriter
    marker: Marker | None
    resumed_at: int | None
    beginning: Beginning | None
    restores: bool

    @property
    def starting_offsets(self) -> str:
        """Where an empty checkpoint begins to read, as Spark wants it."""
        if self.beginning is None or self.beginning.marker is None:
            return "earliest"
        return msgspec.json.encode(self.beginning.marker.end_offsets).decode()


def check(job: DetectorJob, folder: Folder) -> None:
    """Raise as `admit` would, as far as that can be told while another detector works; nothing is changed."""
    _check_wanted(job)
    order = job.rebuild
    if order is not None and not is_carried_out(folder, order):
        if _read_marker(job) is not None:
            check_history(job, order)
        return
    checkpoint.check_claim(folder, _manifest(job))
    _check_whose(job, folder)
    checkpoint.read_live_progress(folder)


def admit(job: DetectorJob, folder: Folder, rules: TopicReader, work: WorkReport) -> Admitted:
    """Take the checkpoint, fencing every other detector; what can only be told after that is checked after it."""
    settings = job.settings
    finish_rebuild(folder)
    check(job, folder)
    order = None if job.rebuild is None or is_carried_out(folder, job.rebuild) else job.rebuild
    _hold(folder, alone=order is not None)
    writer = BatchWriter(job.kafka, f"fraud-rules-{settings.detector}")
    writer.open()
    marker = _read_marker(job)
    if order is not None:
        begin_rebuild(folder, order, marker, _manifest(job))
        _hold(folder, alone=False)
    checkpoint.claim(folder, _manifest(job))
    progress = checkpoint.read_progress(folder)
    work.begin(WorkPhase.RULES, "records")
    log = RuleLog.of(rules, job.schema, settings.limits, work.reached)
    desk = RuleDesk(settings, log, rules, PinStore(folder))
    resumed_at = _check_stop(folder, desk.stopped_at(), resume=job.resume)
    beginning = adopt(folder, marker, progress, wanted=job.adopt)
    if beginning is not None and marker == beginning.marker:
        marker = None
    check_fits(marker, progress, folder.root)
    restores = beginning is not None and beginning.rebuild is not None and progress.committed is None
    return Admitted(desk, writer, marker, resumed_at, beginning, restores)


def _manifest(job: DetectorJob) -> Mapping[str, Any]:
    topics = job.settings.topics
    read = [topics.transactions, topics.rules, topics.detector_ticks]
    return checkpoint.manifest(job.settings, job.schema, topic_ids(job.kafka, read), job.spark.shuffle_partitions)


def _hold(folder: Folder, *, alone: bool) -> None:
    if not folder.hold(alone=alone):
        why = "a detector works on it: stop it first (fraud drain)" if alone else "it is being set aside for a rebuild"
        raise CheckpointForeign(f"{folder.root} cannot be taken, {why}")


def _check_wanted(job: DetectorJob) -> None:
    """Raise Superseded when the intent that this start executes is no longer the newest."""
    if job.attempt is None:
        return
    newest = read_intent_log(job.kafka, job.settings.topics.detector_intents, job.settings.detector).newest
    if newest is None or newest.epoch != job.attempt.epoch:
        said = "nothing" if newest is None else f"epoch {newest.epoch}"
        raise Superseded(f"attempt {job.attempt.attempt_id} is of epoch {job.attempt.epoch}, but {said} is wanted now")


def _check_whose(job: DetectorJob, folder: Folder) -> None:
    """Raise CheckpointForeign when the checkpoint's query is not the one that has written."""
    marker, query = _read_marker(job), checkpoint.known_query(folder)
    beginning = beginning_of(folder)
    if marker is None or (beginning is not None and marker == beginning.marker) or (job.adopt and query is None):
        return
    check_query(marker, query, folder.root)


def _read_marker(job: DetectorJob) -> Marker | None:
    text = last_record(job.kafka, job.settings.topics.detector_marker, job.settings.detector.encode())
    return None if text is None else Marker.decode(text)


def _check_stop(folder: Folder, stopped_at: int | None, *, resume: bool) -> int | None:
    """Raise DetectorStopped while a stop holds; else the offset of the last one that was lifted."""
    text = folder.read(checkpoint.RESUMED)
    resumed_at = int(text) if text is not None and text.isdigit() else None
    if stopped_at is None or (resumed_at is not None and resumed_at >= stopped_at):
        return resumed_at
    if not resume:
        raise DetectorStopped(stopped_message(stopped_at))
    folder.create(checkpoint.RESUMED, str(stopped_at).encode(), replace=True)
    return stopped_at


def stopped_message(offset: int) -> str:
    """What a stop in the rule log means for whoever starts the detector."""
    return f"stopped by the CLEAR_STATE_ALL_STOP at offset {offset} of the rule log: start again with --resume"
