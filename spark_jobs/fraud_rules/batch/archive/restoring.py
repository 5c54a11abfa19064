"""Reads the parts of the archive from which a new Kafka is filled: the rule log, and the transactions of some days."""

from __future__ import annotations

from pathlib import Path

from fraud_rules.batch.archive.files import read_log
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.store import ArchiveStore, local_file
from fraud_rules.errors import InputInvalid
from fraud_rules.model.day import Day


def archived_rules(store: ArchiveStore) -> list[tuple[bytes | None, bytes]]:
    """The records of the rule log as (key, value), in their order. Tombstones, which change no rule, are left out.

    Raises ArchiveDamaged, and InputInvalid for an archive without rules.
    """
    table = read_log(store, store.latest().of(Table.RULES), ["key", "value"])
    records = [(row["key"], row["value"]) for row in table.select(["key", "value"]).to_pylist() if row["value"]]
    if not records:
        raise InputInvalid(f"{store.root} has no archived rules")
    return records


def archived_transactions(store: ArchiveStore, copies: Path, since: Day | None = None) -> list[Path]:
    """The files with the transactions of all event days from `since` on. Those of an object store are copied to the
    folder `copies`.

    Raises ArchiveDamaged, ArchiveUnreachable, and InputInvalid if there are none.
    """
    days = [day for day in store.latest().days(Table.TRANSACTIONS) if since is None or day.number >= since.number]
    files = [store.root / entry.path for day in days for entry in store.latest().of(Table.TRANSACTIONS, day)]
    if not files:
        raise InputInvalid(f"{store.root} has no transactions" + ("" if since is None else f" from {since} on"))
    return [local_file(file, copies) for file in files]
