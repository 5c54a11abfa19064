"""Admits or refuses a start of the detector, by its marker and by the topics that the marker names.

A start that is certainly wrong is refused before it fences another detector. So it never ends a working detector.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from fraud_rules.deploy.deployment_log import read_intent_log
from fraud_rules.deploy.work import WorkPhase
from fraud_rules.engine.admission.mapping_limit import system_mappings
from fraud_rules.errors import (
    CheckpointDamaged,
    CheckpointForeign,
    DetectorStopped,
    OffsetsLost,
    StateDamaged,
    Superseded,
)
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.transactional_ids import detector_id
from fraud_rules.kafka.writer import BatchWriter
from fraud_rules.logs.batch_history import last_batch
from fraud_rules.logs.losses import find_losses
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.warm_up_log import WarmUpLog
from fraud_rules.model.lost_records import LostRecords, move_offsets
from fraud_rules.model.output import MarkUpdate
from fraud_rules.stream.checkpoint.identity import (
    added_fields,
    check_fields,
    check_history,
    check_new,
    check_topics,
    declared_fields,
    is_recreated,
)
from fraud_rules.stream.checkpoint.mark_parts import read_marks
from fraud_rules.stream.checkpoint.marker import Marker, amend, marker_record, read_marker
from fraud_rules.stream.checkpoint.progress_marker import marker_of_progress
from fraud_rules.stream.driver.job import DetectorJob
from fraud_rules.stream.driver.rebuild import RebuildParts, check_rebuild, is_executed, replace_state
from fraud_rules.stream.driver.rule_pinning import RulePinner
from fraud_rules.stream.driver.state_guard import check_state, new_position
from fraud_rules.stream.driver.warm_ups import WarmUpWatch
from fraud_rules.stream.inputs import InputTopics
from fraud_rules.stream.pins import NO_PIN
from fraud_rules.stream.state_position import StatePosition
from fraud_rules.stream.work import WorkReport


@dataclass(frozen=True, slots=True)
class Admission:
    """The resources and the marker of an admitted start. The next batch follows the marker, with its `state` and
    `marks`.

    `new_losses` are the losses that this start has accepted.
    """

    pinner: RulePinner
    warm_ups: WarmUpWatch
    writer: BatchWriter
    marker: Marker
    state: StatePosition
    marks: Sequence[MarkUpdate]
    new_losses: Sequence[LostRecords]


def input_topics(job: DetectorJob) -> tuple[str, ...]:
    """The topics whose records trigger a batch."""
    topics = job.settings.topics
    return topics.transactions, topics.rules


def check(job: DetectorJob) -> None:
    """Raise the errors of `admit` that can be found while another detector works. The check changes nothing.

    The transaction of a killed detector stays open until `admit` fences it. So the check waits for open transactions
    only before it refuses a start, because they may hide the records that would admit it. Raises TransactionOpen.
    """
    _check_newest_intent(job)
    try:
        _check_visible(job)
    except (CheckpointDamaged, CheckpointForeign, StateDamaged):
        topics = job.settings.topics
        await_settled(job.kafka, (topics.detector_progress, topics.detector_marker, topics.detector_state))
        _check_visible(job)


def _check_visible(job: DetectorJob) -> None:
    """Raise the errors of `check` by the records that no open transaction hides."""
    topics, marker = topic_ids(job.kafka, input_topics(job)), _known_marker(job, settled=False)
    if marker is None:
        return
    lost = _lost(job, marker, topics)
    if job.rebuild is not None and not is_executed(marker, job.rebuild):
        check_rebuild(job, job.rebuild, marker, recreated=_is_recreated(job, marker, topics))
    else:
        _check_fits(job, marker, topics)
        check_state(job.kafka, job.settings, marker, settled=False)
        read_marks(job.kafka, job.settings, marker, settled=False)
    _require_accepted(job, lost)


def admit(job: DetectorJob, rules: TopicReader, work: WorkReport, session: Callable[[], SparkSession]) -> Admission:
    """Fence every other process of this detector, and run the checks that need that. Then amend the marker.

    `session` returns Spark's session. Only a rebuild calls it.
    """
    settings = job.settings
    check(job)
    writer = BatchWriter(job.kafka, detector_id(settings.detector))
    writer.open()
    topics = topic_ids(job.kafka, input_topics(job))
    marker = _known_marker(job) or _first_marker(job, writer, topics)
    if job.rebuild is not None and not is_executed(marker, job.rebuild):
        parts, recreated = RebuildParts(session, writer, work), _is_recreated(job, marker, topics)
        marker = replace_state(job, job.rebuild, marker, parts, recreated=recreated)
    _check_fits(job, marker, topics)
    state = check_state(job.kafka, settings, marker)
    marks = read_marks(job.kafka, settings, marker)
    work.begin(WorkPhase.RULES, "records")
    log = RuleLog.of(rules, job.schema, settings.limits, work.reached)
    warm_ups = WarmUpWatch(WarmUpLog(job.kafka, settings.topics.warm_ups, settings.detector))
    pinner = RulePinner(settings, log, marker.pin, marker.rate, warm_ups, system_mappings())
    changes: dict[str, Any] = added_fields(marker, job.schema)
    changes["resumed_at"] = _checked_stop(pinner.live().stopped_at, marker.resumed_at, resume=job.resume)
    lost = _lost(job, marker, topics)
    _require_accepted(job, lost)
    changes |= {"topics": dict(topics), "starts": marker.starts + 1}
    ends = move_offsets(marker.end_offsets, lost)
    changes |= {"lost": [*marker.lost, *lost], "end_offsets": {name: ends.get(name, {}) for name in topics}}
    marker = amend(writer, settings, marker, **changes)
    return Admission(pinner, warm_ups, writer, marker, state, marks, lost)


def _known_marker(job: DetectorJob, *, settled: bool = True) -> Marker | None:
    """The marker at which a start continues, None at a first start.

    Raises CheckpointDamaged without a usable marker. A rebuild does not need one: it continues after the last batch
    of `detector-progress`.
    """
    last = last_batch(job.kafka, job.settings, settled=settled)
    try:
        marker = read_marker(job.kafka, job.settings, settled=settled)
        if marker is None:
            check_new(job.kafka, job.settings, last, settled=settled)
        else:
            check_history(job.settings, marker, last)
    except CheckpointDamaged:
        found = None if job.rebuild is None else marker_of_progress(job.kafka, job.settings, job.schema)
        if found is None:
            raise
        return found
    return marker


def _first_marker(job: DetectorJob, writer: BatchWriter, topics: Mapping[str, str]) -> Marker:
    """Write the marker of a new detector: it starts with the first records of the topics."""
    marker = Marker(
        str(uuid.uuid4()),
        NO_PIN.batch_id,
        InputTopics(TopicEnds(job.kafka), input_topics(job)).first(),
        NO_PIN,
        topics=dict(topics),
        state=new_position(job.kafka, job.settings),
        fields=declared_fields(job.schema),
    )
    writer.write([marker_record(marker, job.settings)])
    return marker


def _check_fits(job: DetectorJob, marker: Marker, topics: Mapping[str, str]) -> None:
    check_topics(marker, topics, job.settings.topics.transactions)
    check_fields(marker, job.schema)


def _is_recreated(job: DetectorJob, marker: Marker, topics: Mapping[str, str]) -> bool:
    """Whether the transactions were created again. They can be read from their beginning; the rule log cannot."""
    return is_recreated(marker, topics, job.settings.topics.transactions)


def _lost(job: DetectorJob, marker: Marker, topics: Mapping[str, str]) -> list[LostRecords]:
    """The transactions that the next batch should read, but that Kafka no longer has."""
    recreated = _is_recreated(job, marker, topics)
    return find_losses(job.kafka, marker.end_offsets, job.settings.topics.transactions, recreated=recreated)


def _require_accepted(job: DetectorJob, lost: Sequence[LostRecords]) -> None:
    if lost and not job.accept_loss:
        raise OffsetsLost(
            f"records are gone before they were read: {'; '.join(map(str, lost))}. Restore the topic, or start once "
            "with --accept-loss: the detector then continues with the first existing records and reports the loss"
        )


def _check_newest_intent(job: DetectorJob) -> None:
    """Raise Superseded if the intent of this start is not the newest anymore."""
    if job.attempt is None:
        return
    newest = read_intent_log(job.kafka, job.settings.topics.detector_intents, job.settings.detector).newest
    if newest is None or newest.epoch != job.attempt.epoch:
        current = "there is no intent" if newest is None else f"the newest intent has epoch {newest.epoch}"
        raise Superseded(f"attempt {job.attempt.attempt_id} has epoch {job.attempt.epoch}, but {current}")


def _checked_stop(stopped_at: int | None, resumed_at: int | None, *, resume: bool) -> int | None:
    """Raise DetectorStopped while a stop is in force. Return the offset of the last lifted stop."""
    if stopped_at is None or (resumed_at is not None and resumed_at >= stopped_at):
        return resumed_at
    if not resume:
        raise DetectorStopped(stopped_message(stopped_at))
    return stopped_at


def stopped_message(offset: int) -> str:
    """The message for a start that a stop in the rule log refuses."""
    return f"stopped by the CLEAR_STATE_ALL_STOP at offset {offset} of the rule log: start again with --resume"
