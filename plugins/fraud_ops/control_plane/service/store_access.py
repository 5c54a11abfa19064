"""The store, with the values that each change of it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fraud_ops.control_plane.domain.rule_input import RuleReader
from fraud_ops.control_plane.service.changes import UnitOfWork
from fraud_ops.control_plane.settings import ControlPlaneSettings
from fraud_ops.control_plane.store.database import Database

__all__ = ["StoreAccess"]


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """`reader` validates rules. `clock_ms` reads the time, in epoch ms."""

    database: Database
    settings: ControlPlaneSettings
    reader: RuleReader
    clock_ms: Callable[[], int]

    @contextmanager
    def unit_of_work(self) -> Iterator[UnitOfWork]:
        """Open a change as the only writer; the end of the block commits it. Raises as `Database.writing` does."""
        with self.database.writing() as session:
            yield UnitOfWork(session, self.settings, self.reader, self.clock_ms())
