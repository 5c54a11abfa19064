"""What a Python worker process keeps between batches: the rule log and the views of key groups.

Workers are reused, so module-level state of an importable module survives; which worker runs which task is up to Spark,
so nothing here is relied on for more than speed.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import cache

from pyspark import TaskContext

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.store import MappedViews, ViewStore
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.worker.spill import Spill
from fraud_rules.stream.worker.views import sweep_views, view_folder

PIN_PROPERTY = "fraud.pin"
BATCH_PROPERTY = "streaming.sql.batchId"

_SETTLED_AT = 2
_tasks = 0


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What every task needs; sent along with it. `checkpoint` tells the views of different detectors apart; `restores`
    says that the first batch takes a recomputed state in."""

    schema: TransactionSchema
    settings: DetectorSettings
    kafka: KafkaConnection
    checkpoint: str
    partitions: int
    restores: bool = False

    def restores_now(self) -> bool:
        """Whether this task is of the batch that takes a recomputed state in: it has to visit every key group."""
        return self.restores and self.batch_id() == 0

    def timeline(self) -> RuleTimeline:
        """The rule log up to the pin of the batch this task belongs to."""
        pin = Pin.decode(_property(PIN_PROPERTY).encode())
        log = _rule_log(self.kafka, self.settings.topics.rules, self.schema, self.settings)
        return log.up_to(pin.rules_end, pin.reasons(), pin.digest)

    def spill(self) -> Spill:
        """Where outputs go that are too large for a row."""
        return Spill(self.checkpoint, self.settings.spill_output_bytes)

    def batch_id(self) -> int:
        """The batch this task belongs to."""
        return int(_property(BATCH_PROPERTY))

    def views(self) -> ViewStore:
        """The views of this host."""
        return _views(self.checkpoint, self.settings.views_folder, self.schema)


def settle() -> None:
    """Put what the process has loaded beyond the reach of the garbage collector; call it once a task is set up.

    Spark's daemon collects garbage after every task. Over the objects of numba, pyarrow and pyspark that takes longer
    than the task itself; what a worker has loaded by its second task it keeps for good.
    """
    global _tasks  # noqa: PLW0603 - a count of this process
    _tasks += 1
    if _tasks == _SETTLED_AT:
        gc.collect()
        gc.freeze()


def _property(name: str) -> str:
    context = TaskContext.get()
    value = context.getLocalProperty(name) if context is not None else None
    if value is None:
        raise FraudError(f"a task of the detector runs without {name}: it must be started by its own driver")
    return value


@cache
def _rule_log(kafka: KafkaConnection, topic: str, schema: TransactionSchema, settings: DetectorSettings) -> RuleLog:
    return RuleLog.of(TopicReader(kafka, topic), schema, settings.limits)


@cache
def _views(checkpoint: str, root: str, schema: TransactionSchema) -> MappedViews:
    sweep_views(root)
    return MappedViews(view_folder(checkpoint, root), schema)
