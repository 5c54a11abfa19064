"""Saves labels of transactions. The newest label of a transaction replaces an older one: its time is that of its line,
else that of its arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from fraud_control.service.ids import batches
from fraud_control.service.labels.payments import KEPT_DAYS, insert_of
from fraud_control.store.alert_models import AlertPaymentRow
from fraud_control.store.label_models import LABELLED_ID_CHARS, LabelRow
from fraud_rules.batch.whatif.labels import VERDICTS, LabelLine, LabelSource
from fraud_rules.model.day import DAY_MS
from fraud_rules.runtime.safe_text import is_unprintable


@dataclass(frozen=True, slots=True)
class LabelOrigin:
    """The source, the author and the time of arrival of labels."""

    source: LabelSource
    author: str
    at_ms: int


def resolve(session: Session, lines: Iterable[LabelLine], now_ms: int) -> Iterator[tuple[str, LabelLine] | str]:
    """Yield the transaction id of each line with the line, or the reason why it is of no use.

    A line about an alert needs an alert that the store has seen. Another program's clock may be fast, but not by a day.
    """
    known = list(lines)
    transactions = _transactions(session, [each.alert_id for each in known if each.alert_id is not None])
    for line in known:
        found = line.transaction_id if line.alert_id is None else transactions.get(line.alert_id)
        if found is None:
            yield "alert unknown or too old"
        elif len(str(found)) > LABELLED_ID_CHARS or is_unprintable(str(found)):
            yield "unsuitable transaction id"
        elif line.at_ms is not None and line.at_ms > now_ms + DAY_MS:
            yield "time in the future"
        else:
            yield str(found), line


def save_labels(session: Session, labels: Mapping[str, LabelLine], origin: LabelOrigin) -> None:
    """Save the labels of transaction ids. A newer label of the store stays. Labels that are too old leave the store."""
    adding = insert_of(session, LabelRow)
    new = adding.excluded
    columns = ("verdict", "source", "author", "origin", "at_ms", "saved_ms")
    upsert = adding.on_conflict_do_update(
        index_elements=[LabelRow.transaction_id],
        set_={name: new[name] for name in columns},
        where=new.at_ms >= LabelRow.at_ms,
    )
    rows = [_row(transaction_id, line, origin) for transaction_id, line in labels.items()]
    if rows:
        session.execute(upsert, rows)
    session.execute(delete(LabelRow).where(LabelRow.at_ms < origin.at_ms - KEPT_DAYS * DAY_MS))


def _row(transaction_id: str, line: LabelLine, origin: LabelOrigin) -> dict[str, Any]:
    return {
        "transaction_id": transaction_id,
        "verdict": VERDICTS[line.label],
        "source": origin.source.value,
        "author": origin.author,
        "origin": line.origin,
        "at_ms": origin.at_ms if line.at_ms is None else min(line.at_ms, origin.at_ms),
        "saved_ms": origin.at_ms,
    }


def _transactions(session: Session, alert_ids: Sequence[str]) -> Mapping[str, str]:
    """The transactions of known alerts, by alert id."""
    found: dict[str, str] = {}
    columns = select(AlertPaymentRow.alert_id, AlertPaymentRow.transaction_id)
    for some in batches(alert_ids):
        rows = session.execute(columns.where(AlertPaymentRow.alert_id.in_(some)))
        found.update((alert_id, transaction_id) for alert_id, transaction_id in rows)
    return found
