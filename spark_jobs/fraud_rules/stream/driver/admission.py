"""Admits or refuses a start of the detector, by the checkpoint's owner and integrity and by the written outputs.

A start that is certainly wrong is refused before it fences another detector. So it never ends a working detector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from fraud_rules.deploy.deployment_log import read_intent_log
from fraud_rules.deploy.work import WorkPhase
from fraud_rules.engine.mapping_limit import system_mappings
from fraud_rules.errors import (
    CheckpointDamaged,
    CheckpointForeign,
    DetectorStopped,
    OffsetsLost,
    StateDamaged,
    Superseded,
)
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.transactional_ids import detector_id
from fraud_rules.kafka.writer import BatchWriter
from fraud_rules.logs.losses import find_losses
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.warm_up_log import WarmUpLog
from fraud_rules.model.lost_records import LostRecords, Offsets, move_offsets
from fraud_rules.spark.storage import Folder
from fraud_rules.stream import checkpoint
from fraud_rules.stream.driver import losses
from fraud_rules.stream.driver.job import DetectorJob
from fraud_rules.stream.driver.marker import (
    Beginning,
    Marker,
    adopt,
    beginning_of,
    check_fits,
    check_query,
    read_marker,
)
from fraud_rules.stream.driver.rebuild import (
    RebuildParts,
    begin_rebuild,
    check_history,
    finish_rebuild,
    is_executed,
    replace_state,
)
from fraud_rules.stream.driver.rule_pinning import RulePinner
from fraud_rules.stream.driver.state_guard import check_state, state_at
from fraud_rules.stream.driver.warm_ups import WarmUpWatch
from fraud_rules.stream.pins import PinStore
from fraud_rules.stream.state_position import StatePosition
from fraud_rules.stream.work import WorkReport

__all__ = ["Admission", "admit", "check", "stopped_message"]


@dataclass(frozen=True, slots=True)
class Admission:
    """The resources and the state of an admitted start.

    `marker` is None if no output of this checkpoint is written. `state` is the state with which the next batch starts.
    `topics` are Kafka's ids of the input topics. `loss` is the last accepted loss of the checkpoint. `new_losses` are
    the losses that this start has accepted.
    """

    pinner: RulePinner
    warm_ups: WarmUpWatch
    writer: BatchWriter
    marker: Marker | None
    state: StatePosition
    resumed_at: int | None
    beginning: Beginning | None
    topics: Mapping[str, str]
    loss: losses.AcceptedLoss | None
    new_losses: Sequence[LostRecords]

    @property
    def starting_offsets(self) -> Offsets:
        """The offsets at which an empty checkpoint starts. A partition without one starts at its first record."""
        if self.beginning is None or self.beginning.marker is None:
            return {}
        lost = () if self.loss is None else self.loss.lost
        return move_offsets(self.beginning.marker.end_offsets, lost)


def check(job: DetectorJob, folder: Folder) -> None:
    """Raise the errors of `admit` that can be found while another detector works. The check changes nothing.

    The transaction of a killed detector stays open until `admit` fences it. So the check waits for open transactions
    only before it refuses a start, because they may hide the records that would admit it. Raises TransactionOpen.
    """
    _check_newest_intent(job)
    try:
        _check_visible(job, folder)
    except (CheckpointDamaged, CheckpointForeign, StateDamaged):
        await_settled(job.kafka, (job.settings.topics.detector_marker, job.settings.topics.detector_state))
        _check_visible(job, folder)


def _check_visible(job: DetectorJob, folder: Folder) -> None:
    """Raise the errors of `check` by the records that no open transaction hides."""
    order, topics, marker = job.rebuild, _topic_ids(job), read_marker(job.kafka, job.settings, settled=False)
    if order is not None and not is_executed(folder, order):
        if marker is not None:
            known = {**checkpoint.topics_of(folder), **marker.topics}
            _require_accepted(job, _lost(job, marker.end_offsets, marker.end_offsets, known, topics))
            check_history(job, order, marker, recreated=_recreated(job, known, topics))
        return
    checkpoint.check_claim(folder, _manifest(job, _known_topics(job, folder, marker, topics)))
    check_state(job.kafka, job.settings, marker, settled=False)
    _check_owner(job, folder, marker)
    progress = checkpoint.read_live_progress(folder)
    _require_accepted(job, _losses(job, folder, progress, _beginning(job, folder, marker, progress), topics))


def admit(
    job: DetectorJob, folder: Folder, rules: TopicReader, work: WorkReport, session: Callable[[], SparkSession]
) -> Admission:
    """Claim the checkpoint, fence every other process of this detector, and run the checks that need both.

    `session` returns Spark's session. Only a rebuild calls it.
    """
    settings, topics = job.settings, _topic_ids(job)
    finish_rebuild(folder)
    check(job, folder)
    order = None if job.rebuild is None or is_executed(folder, job.rebuild) else job.rebuild
    _lock_folder(folder, exclusive=order is not None)
    writer = BatchWriter(job.kafka, detector_id(settings.detector))
    writer.open()
    losses.complete(folder, writer, settings)
    marker = read_marker(job.kafka, job.settings)
    if order is not None:
        if marker is not None:
            recreated = _recreated(job, {**checkpoint.topics_of(folder), **marker.topics}, topics)
            read_again = settings.topics.transactions in recreated
            parts = RebuildParts(session, folder.root, writer, work)
            marker = replace_state(job, order, marker, parts, recreated=read_again)
        begin_rebuild(folder, order, marker, _manifest(job, topics))
        _lock_folder(folder, exclusive=False)
    checkpoint.claim(folder, _manifest(job, _known_topics(job, folder, marker, topics)))
    progress = checkpoint.read_progress(folder)
    work.begin(WorkPhase.RULES, "records")
    log = RuleLog.of(rules, job.schema, settings.limits, work.reached)
    warm_ups = WarmUpWatch(WarmUpLog(job.kafka, settings.topics.warm_ups, settings.detector))
    rate = None if marker is None else marker.rate
    pinner = RulePinner(settings, log, rules, PinStore(folder), rate, warm_ups, system_mappings())
    resumed_at = _check_stop(folder, pinner.stopped_at(), resume=job.resume)
    state = state_at(job.kafka, settings, marker)
    beginning = adopt(folder, marker, progress, wanted=job.adopt)
    if beginning is not None and marker == beginning.marker:
        marker = None
    check_fits(marker, progress, folder.root)
    lost = _losses(job, folder, progress, beginning, topics)
    _require_accepted(job, lost)
    if lost:
        losses.accept(folder, progress, marker, lost, topics)
        losses.complete(folder, writer, settings)
        marker = None if marker is None else read_marker(job.kafka, job.settings)
    loss = losses.accepted_loss(folder)
    return Admission(pinner, warm_ups, writer, marker, state, resumed_at, beginning, topics, loss, lost)


def _topic_ids(job: DetectorJob) -> Mapping[str, str]:
    topics = job.settings.topics
    return topic_ids(job.kafka, [topics.transactions, topics.rules, topics.detector_ticks])


def _manifest(job: DetectorJob, topics: Mapping[str, str]) -> Mapping[str, Any]:
    return checkpoint.manifest(job.settings, job.schema, topics)


def _known_topics(
    job: DetectorJob, folder: Folder, marker: Marker | None, topics: Mapping[str, str]
) -> Mapping[str, str]:
    """The ids of the topics for the check of the manifest. A recreated topic keeps the id that the manifest has.

    A recreated topic is a loss that a person can accept. That applies only if this Kafka has the checkpoint's marker;
    otherwise all ids are the current ones, and the check refuses another Kafka.
    """
    query, beginning = checkpoint.known_query(folder), beginning_of(folder)
    if marker is None or (marker.query_id != query and (beginning is None or marker != beginning.marker)):
        return topics
    known = checkpoint.topics_of(folder)
    return {**topics, **{name: known[name] for name in _recreated(job, known, topics)}}


def _recreated(job: DetectorJob, known: Mapping[str, str], topics: Mapping[str, str]) -> list[str]:
    """The recreated topics that can be read from their beginning. The rule log is never one of them."""
    names = (job.settings.topics.transactions, job.settings.topics.detector_ticks)
    return [name for name in names if known.get(name) not in (None, topics[name])]


def _beginning(
    job: DetectorJob, folder: Folder, marker: Marker | None, progress: checkpoint.CheckpointProgress
) -> Beginning | None:
    """The recorded beginning of the checkpoint, or the beginning that `--adopt` would record."""
    known = beginning_of(folder)
    if known is None and job.adopt and marker is not None and progress.query_id is None:
        return Beginning(marker)
    return known


def _losses(
    job: DetectorJob,
    folder: Folder,
    progress: checkpoint.CheckpointProgress,
    beginning: Beginning | None,
    topics: Mapping[str, str],
) -> list[LostRecords]:
    """The records that the next batch should read, but that Kafka no longer has."""
    known, before = checkpoint.topics_of(folder), losses.accepted_loss(folder)
    if before is not None and not before.done:
        return []  # an interrupted acceptance is completed first
    if progress.committed is not None:
        starts: Offsets | None = progress.planned[progress.committed]
        ends = progress.planned.get(progress.committed + 1, starts)
    else:
        starts = checkpoint.initial_offsets(folder)
        if starts is None and beginning is not None and beginning.marker is not None:
            starts = move_offsets(beginning.marker.end_offsets, () if before is None else before.lost)
            known = {**known, **(beginning.marker.topics if before is None else {})}
        ends = progress.planned.get(0, starts)
    return [] if starts is None or ends is None else _lost(job, starts, ends, known, topics)


def _lost(
    job: DetectorJob, starts: Offsets, ends: Offsets, known: Mapping[str, str], topics: Mapping[str, str]
) -> list[LostRecords]:
    names = (job.settings.topics.transactions, job.settings.topics.detector_ticks)
    return find_losses(job.kafka, starts, ends, names, _recreated(job, known, topics))


def _require_accepted(job: DetectorJob, lost: Sequence[LostRecords]) -> None:
    if lost and not job.accept_loss:
        raise OffsetsLost(
            f"records are gone before they were read: {'; '.join(map(str, lost))}. Restore the topic, or start once "
            "with --accept-loss: the detector then continues with the first existing records and reports the loss"
        )


def _lock_folder(folder: Folder, *, exclusive: bool) -> None:
    if not folder.hold(exclusive=exclusive):
        why = "a detector uses it: stop it first (fraud drain)" if exclusive else "a rebuild is setting it aside"
        raise CheckpointForeign(f"{folder.root} cannot be locked: {why}")


def _check_newest_intent(job: DetectorJob) -> None:
    """Raise Superseded if the intent of this start is not the newest anymore."""
    if job.attempt is None:
        return
    newest = read_intent_log(job.kafka, job.settings.topics.detector_intents, job.settings.detector).newest
    if newest is None or newest.epoch != job.attempt.epoch:
        current = "there is no intent" if newest is None else f"the newest intent has epoch {newest.epoch}"
        raise Superseded(f"attempt {job.attempt.attempt_id} has epoch {job.attempt.epoch}, but {current}")


def _check_owner(job: DetectorJob, folder: Folder, marker: Marker | None) -> None:
    """Raise CheckpointForeign if a query other than the checkpoint's has written the outputs."""
    query, beginning = checkpoint.known_query(folder), beginning_of(folder)
    if marker is None or (beginning is not None and marker == beginning.marker) or (job.adopt and query is None):
        return
    check_query(marker, query, folder.root)


def _check_stop(folder: Folder, stopped_at: int | None, *, resume: bool) -> int | None:
    """Raise DetectorStopped while a stop is in force. Return the offset of the last lifted stop."""
    text = folder.read(checkpoint.RESUMED)
    resumed_at = int(text) if text is not None and text.isdigit() else None
    if stopped_at is None or (resumed_at is not None and resumed_at >= stopped_at):
        return resumed_at
    if not resume:
        raise DetectorStopped(stopped_message(stopped_at))
    folder.create(checkpoint.RESUMED, str(stopped_at).encode(), replace=True)
    return stopped_at


def stopped_message(offset: int) -> str:
    """The message for a start that a stop in the rule log refuses."""
    return f"stopped by the CLEAR_STATE_ALL_STOP at offset {offset} of the rule log: start again with --resume"
