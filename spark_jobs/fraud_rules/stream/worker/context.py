"""The state that a Python worker process keeps between batches: the rule log and the views of key groups.

Spark reuses workers, so the variables of an imported module survive a task. Spark also chooses the worker of each task,
so this state may improve speed only: no result depends on it.
"""

from __future__ import annotations

import gc
import shutil
import socket
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fraud_rules.engine.rule_meter import RuleMeter
    from fraud_rules.engine.warm_up import WarmHistory

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.store import MappedViews, ViewStore
from fraud_rules.engine.task_progress import TaskProgress
from fraud_rules.errors import FraudError, ReleaseInvalid
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpRef, WarmUpResult
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.warm_up import BatchWarmUp
from fraud_rules.stream.batch_order import BatchOrder
from fraud_rules.stream.channel import ChannelAddress
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.worker.host_files import HostFiles
from fraud_rules.stream.worker.shared_read import SharedRead
from fraud_rules.stream.worker.state_log import ReadLog, TaskStateLog
from fraud_rules.stream.worker.views import owner_of_views, sweep_views, touch_views, view_folder

_SETTLED_AT = 2
_tasks = 0


def _new_start() -> str:
    return uuid.uuid4().hex[:8]


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The values that every task needs. Spark sends them with the task.

    `history` is the id of the detector's history, which separates its views from those of others; `start` separates
    the starts of one detector. `state_partitions` is the number of partitions of the topic `detector-state`. `channel`
    is the driver's channel; a rebuild has none. `code` is the digest of the driver's code if the tasks run on other
    hosts, else empty. `batch_order` is the order of the task's batch, see `of_batch`.
    """

    schema: TransactionSchema
    settings: DetectorSettings
    kafka: KafkaConnection
    state_partitions: int
    history: str
    channel: ChannelAddress | None = None
    code: str = ""
    start: str = field(default_factory=_new_start)
    batch_order: BatchOrder | None = None

    def of_batch(self, order: BatchOrder) -> WorkerContext:
        """The context of a task that evaluates the batch with this order."""
        return replace(self, batch_order=order)

    @property
    def reads_headers(self) -> bool:
        """Whether the headers of transactions are read."""
        return self.schema.reads_headers or self.settings.trace_headers

    def pin(self) -> Pin:
        """The pin of this task's batch."""
        return self.order().pin

    def order(self) -> BatchOrder:
        """The order of this task's batch."""
        if self.batch_order is None:
            raise FraudError("a task of the detector runs without an order: only the detector's driver may start it")
        return self.batch_order

    def timeline(self) -> RuleTimeline:
        """The rule log up to the pin of this task's batch."""
        pin = self.pin()
        return self.rule_log().up_to(pin.rules_end, pin.reasons(), pin.digest)

    def rule_log(self) -> RuleLog:
        """The rule log, as far as this worker has read it."""
        return _rule_log(self.kafka, self.settings.topics.rules, self.schema, self.settings)

    def histories(self, key_group: int) -> list[WarmHistory]:
        """The results of the warm-ups that join the state of a key group at the start of this task's batch."""
        return [self._joining(ref, key_group) for ref in self.pin().joining().values()]

    def _joining(self, ref: WarmUpRef, key_group: int) -> WarmHistory:
        from fraud_rules.engine.prepared import PreparedHistory
        from fraud_rules.engine.warm_up import WarmHistory

        prepared = PreparedHistory.find(self.prepared_folder(ref.offset, ref.digest, key_group))
        if prepared is None:
            return self.warm_history(ref.offset, ref.digest, key_group)
        return WarmHistory.of_prepared(prepared, lambda: self.warm_history(ref.offset, ref.digest, key_group).rows)

    def warm_history(self, offset: int, digest: str, key_group: int) -> WarmHistory:
        """The result of a warm-up for a key group, read from the topic. Raises StateDamaged, BrokerUnavailable."""
        return _history(self.warm_up_log, offset, digest, key_group)

    def prepared_folder(self, offset: int, digest: str, key_group: int) -> Path:
        """The folder of this host for the history of a key group that this start has prepared. `offset` and `digest`
        name the result.

        Two requests of a grouping can have results with the same rows and thus the same digest. While a batch adds
        the first result, a task may prepare the second.
        """
        folder = _prepared(self.owner, self.settings.views_folder) / self.start
        return folder / f"{offset}-{digest}" / f"key-group-{key_group}"

    def discard_prepared(self) -> None:
        """Remove all prepared histories of this host."""
        shutil.rmtree(_prepared(self.owner, self.settings.views_folder), ignore_errors=True)

    def recorded_history(self, warm_up: BatchWarmUp, key_group: int) -> WarmHistory:
        """The result of a recorded warm-up for a key group, also if the number of key groups was another one."""
        result = _warm_up_result(self.warm_up_log, warm_up.offset, warm_up.digest)
        if result.key_groups == self.settings.key_groups:
            return _history(self.warm_up_log, warm_up.offset, warm_up.digest, key_group)
        return _split_histories(self.warm_up_log, warm_up.offset, warm_up.digest, self.settings.key_groups)[key_group]

    @property
    def warm_up_log(self) -> WarmUpLog:
        """The results of this detector's warm-ups."""
        return WarmUpLog(self.kafka, self.settings.topics.warm_ups, self.settings.detector)

    @property
    def owner(self) -> str:
        """The owner of the views on a host."""
        return owner_of_views(self.settings.detector, self.history)

    @property
    def state_topic(self) -> StateTopic:
        """The durable state of this detector."""
        topic, detector = self.settings.topics.detector_state, self.settings.detector
        return StateTopic(self.kafka, topic, detector, self.state_partitions)

    def state_log(self, key_group: int, progress: TaskProgress, read: ReadLog | None = None) -> TaskStateLog:
        """The log of a key group at the start of this task's batch. `read` reads the topic, see `TaskStateLog`."""
        start = self.order().task_state(key_group)
        return TaskStateLog(key_group, start, partial(self.host_files, key_group), self.state_topic, progress, read)

    def shared_read(self, key_groups: Collection[int]) -> SharedRead:
        """Reads the logs of the key groups of one task."""
        return SharedRead(self.state_topic, key_groups, partial(view_folder, self.owner, self.settings.views_folder))

    def host_files(self, key_group: int) -> HostFiles:
        """The files of a key group's log on this host. The caller must hold the key group's view."""
        files = _host_files(self.owner, self.settings.views_folder, key_group)
        files.refresh()
        return files

    def views(self) -> ViewStore:
        """The views of this host."""
        touch_views(self.owner, self.settings.views_folder)
        return _views(self.owner, self.settings.views_folder, self.schema)

    def rule_meter(self) -> RuleMeter:
        """The meter of the rules' CPU time in this process."""
        return _rule_meter()


def begin_task(context: WorkerContext) -> None:
    """Prepare this process for a task. Each task calls this at its start, and the evaluator for each batch.

    Raises ReleaseInvalid if the process has other code than the driver, so that no task evaluates with it.
    """
    if context.code:
        check_code(context.code)
    _freeze_loaded()


@cache
def check_code(expected: str) -> None:
    """Check the digest of this process's code, once. Raises ReleaseInvalid."""
    from fraud_rules.deploy.code import code_digest, code_root

    found = code_digest()
    if found != expected:
        raise ReleaseInvalid(
            f"{socket.gethostname()} has other code than the driver: {code_root()} has digest {found}, the driver "
            f"{expected}. Install the same release on every host"
        )


def _freeze_loaded() -> None:
    """Freeze the loaded objects, so that the garbage collector skips them.

    Spark's daemon collects garbage after every task. With the objects of numba, pyarrow and pyspark, a collection
    takes longer than the task itself. The objects that a worker has loaded by its second task live as long as the
    worker, so the second call freezes these objects.
    """
    global _tasks  # noqa: PLW0603 - a count of this process
    _tasks += 1
    if _tasks == _SETTLED_AT:
        gc.collect()
        gc.freeze()


def _history(log: WarmUpLog, offset: int, digest: str, key_group: int) -> WarmHistory:
    from fraud_rules.engine.warm_up import history_of_chunks

    result = _warm_up_result(log, offset, digest)
    part = next(part for part in result.parts if part.key_group == key_group)
    chunks = log.read_chunks(part)
    rows = len(chunks) - part.sum_chunks
    times_ms = part.begins_ms, part.series_begins_ms, part.bound_ms
    return history_of_chunks(result.version, result.grouping, times_ms, chunks[:rows], chunks[rows:])


@lru_cache(maxsize=1)
def _split_histories(log: WarmUpLog, offset: int, digest: str, key_groups: int) -> Mapping[int, WarmHistory]:
    """The histories for another number of key groups. All key groups of a task use them."""
    from fraud_rules.engine.warm_up import histories_for

    result = _warm_up_result(log, offset, digest)
    parts = {part.key_group: _history(log, offset, digest, part.key_group) for part in result.parts}
    return histories_for(parts, result.key_groups, key_groups)


@lru_cache(maxsize=4)
def _warm_up_result(log: WarmUpLog, offset: int, digest: str) -> WarmUpResult:
    """The key groups of a task use the same result."""
    return log.read_result(WarmUpRef(0, offset, digest))


@cache
def _rule_log(kafka: KafkaConnection, topic: str, schema: TransactionSchema, settings: DetectorSettings) -> RuleLog:
    return RuleLog.of(TopicReader(kafka, topic), schema, settings.limits)


@cache
def _rule_meter() -> RuleMeter:
    from fraud_rules.engine.rule_meter import RuleMeter

    return RuleMeter()


@cache
def _logs(owner: str, root: str) -> Path:
    return view_folder(owner, root) / "log"


@cache
def _prepared(owner: str, root: str) -> Path:
    return view_folder(owner, root) / "warm-ups"


@cache
def _host_files(owner: str, root: str, key_group: int) -> HostFiles:
    return HostFiles(_logs(owner, root) / f"key-group-{key_group}")


@cache
def _views(owner: str, root: str, schema: TransactionSchema) -> MappedViews:
    sweep_views(root)
    return MappedViews(view_folder(owner, root), schema)
