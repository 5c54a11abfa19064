"""Saves labels of transactions. The newest label of a transaction replaces an older one."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from fraud_control.store.alert_models import AlertRow
from fraud_control.store.label_models import LABELLED_ID_CHARS, LabelRow
from fraud_rules.batch.whatif.labels import VERDICTS, LabelLine, LabelSource
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.runtime.safe_text import is_unprintable

__all__ = ["KEPT_DAYS", "LabelOrigin", "resolve", "save_labels"]

KEPT_DAYS: Final = 400
"""The age at which labels leave the store: the largest number of days of a what-if. A label is never older than its
transaction, so no what-if up to the present needs an older one."""

_DAY_MS: Final = 86_400_000
_AT_ONCE: Final = 400


class _Payment(msgspec.Struct, rename="camel"):
    transaction_id: int | str


class _PublishedAlert(msgspec.Struct, rename="camel"):
    triggering_event: _Payment


_read = msgspec.json.Decoder(_PublishedAlert).decode


@dataclass(frozen=True, slots=True)
class LabelOrigin:
    """The source, the author and the time of labels."""

    source: LabelSource
    author: str
    at_ms: int


def resolve(session: Session, lines: Iterable[LabelLine]) -> Iterator[tuple[str, int] | str]:
    """Yield the transaction id and the class of each line, or the reason why it has no usable transaction id.

    A line about an alert needs an alert of the index.
    """
    known = list(lines)
    transactions = _transactions(session, [each.alert_id for each in known if each.alert_id is not None])
    for line in known:
        found = line.transaction_id if line.alert_id is None else transactions.get(line.alert_id)
        if found is None:
            yield "alert unknown or too old"
        elif len(str(found)) > LABELLED_ID_CHARS or is_unprintable(str(found)):
            yield "unsuitable transaction id"
        else:
            yield str(found), line.label


def save_labels(session: Session, labels: Mapping[str, int], origin: LabelOrigin) -> None:
    """Save classes by transaction id. A newer label of the store stays. Labels that are too old leave the store."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    adding = dialect.insert(LabelRow)
    new = adding.excluded
    columns = ("verdict", "source", "author", "at_ms")
    upsert = adding.on_conflict_do_update(
        index_elements=[LabelRow.transaction_id],
        set_={name: new[name] for name in columns},
        where=new.at_ms >= LabelRow.at_ms,
    )
    common: dict[str, Any] = {"source": origin.source.value, "author": origin.author, "at_ms": origin.at_ms}
    rows = [{"transaction_id": each, "verdict": VERDICTS[label], **common} for each, label in labels.items()]
    if rows:
        session.execute(upsert, rows)
    session.execute(delete(LabelRow).where(LabelRow.at_ms < origin.at_ms - KEPT_DAYS * _DAY_MS))


def _transactions(session: Session, alert_ids: Sequence[str]) -> Mapping[str, int | str]:
    """The transactions of alerts of the index, by alert id."""
    found: dict[str, int | str] = {}
    for start in range(0, len(alert_ids), _AT_ONCE):
        wanted = AlertRow.alert_id.in_(alert_ids[start : start + _AT_ONCE])
        for alert_id, published in session.execute(select(AlertRow.alert_id, AlertRow.json).where(wanted)):
            try:
                found[alert_id] = _read(zlib.decompress(published)).triggering_event.transaction_id
            except UNDECODABLE:
                continue  # another program wrote this alert in another form
    return found
