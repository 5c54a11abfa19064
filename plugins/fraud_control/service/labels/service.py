"""The labels of the store: uploads of users, and their counts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from sqlalchemy import case, func, select

from fraud_control.domain.errors import Invalid
from fraud_control.domain.label_models import LabelCounts, LabelUpload
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.service.audit import AuditRecord
from fraud_control.service.labels.saving import LabelOrigin, resolve, save_labels
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.alert_models import MarkRow
from fraud_control.store.label_models import LabelRow
from fraud_rules.batch.whatif.labels import (
    FRAUD,
    NOT_FRAUD,
    VERDICTS,
    LabelLine,
    LabelLines,
    LabelSource,
    read_label_lines,
)
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.schema import TransactionSchema

_VERDICTS: Final = tuple(VERDICTS.values())
_MOST_ORIGINS: Final = 50
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\]{1,200}")


class LabelService:
    """Several threads may use it."""

    def __init__(self, store: StoreAccess, schema: TransactionSchema) -> None:
        self._store = store
        self._schema = schema

    def upload(self, actor: Actor, name: str, form: Literal["csv", "jsonl"], content: str) -> LabelUpload:
        """Save the labels of a file of a user. A label without a time has that of the upload; of several labels of a
        transaction, the newest counts. Raises RequestRefused, Invalid.
        """
        require(actor, Permission.MARK)
        encoded = self._checked(name, content)
        read = self._read(form, encoded)
        with self._store.change(actor) as work:
            skipped = Counter(read.skipped)
            labels: dict[str, LabelLine] = {}
            for found in resolve(work.session, read.lines, work.now_ms):
                if isinstance(found, str):
                    skipped[found] += 1
                else:
                    labels[found[0]] = found[1]
            save_labels(work.session, labels, LabelOrigin(LabelSource.FILE, actor.user, work.now_ms))
            counts = Counter(line.label for line in labels.values())
            result = LabelUpload(fraud=counts[FRAUD], not_fraud=counts[NOT_FRAUD], skipped=dict(skipped))
            facts = result.model_dump(by_alias=True) | {"sha256": hashlib.sha256(encoded).hexdigest()}
            work.append_audit(AuditRecord(actor.user, "labels.upload", f"file {name}", None, facts))
        return result

    def counts(self) -> list[LabelCounts]:
        """Count the labels of each source, and of each source that labels of files and of the topic name."""
        fraud, not_fraud = (func.sum(case((LabelRow.verdict == each, 1), else_=0)) for each in _VERDICTS)
        origins = (
            select(LabelRow.source, LabelRow.origin, fraud, not_fraud, func.max(LabelRow.at_ms))
            .group_by(LabelRow.source, LabelRow.origin)
            .order_by(func.count().desc(), LabelRow.origin)
            .limit(_MOST_ORIGINS)
        )
        marked, unmarked = (func.sum(case((MarkRow.verdict == each, 1), else_=0)) for each in _VERDICTS)
        with self._store.database.reading() as session:
            marks = session.execute(select(marked, unmarked, func.max(MarkRow.at_ms))).one()
            rows = [(LabelSource.MARK, "", *marks), *session.execute(origins)]
        found = [
            LabelCounts(
                source=LabelSource(source).value,
                origin=origin,
                fraud=of_fraud or 0,
                not_fraud=others or 0,
                newest_ms=newest_ms,
            )
            for source, origin, of_fraud, others, newest_ms in rows
        ]
        missing = set(LabelSource) - {LabelSource(each.source) for each in found}
        found += [LabelCounts(source=each.value, origin="", fraud=0, not_fraud=0, newest_ms=None) for each in missing]
        return sorted(found, key=lambda each: tuple(LabelSource).index(LabelSource(each.source)))

    def _checked(self, name: str, content: str) -> bytes:
        """The bytes of the file. Raises Invalid."""
        if not _NAME.fullmatch(name):
            raise Invalid([Reason("name", "must be a file name of 1 to 200 characters")])
        encoded, most = content.encode("utf-8"), self._store.settings.bounds.label_bytes
        if len(encoded) > most:
            raise Invalid([Reason("content", f"has {len(encoded)} bytes, at most {most} are allowed")])
        return encoded

    def _read(self, form: str, content: bytes) -> LabelLines:
        with TemporaryDirectory(prefix="fraud-labels-") as folder:
            path = Path(folder, f"file.{form}")
            path.write_bytes(content)
            try:
                return read_label_lines(path, self._schema)
            except InputInvalid as error:
                said = str(error).replace(f"{path} ", "")
                raise Invalid([Reason("content", said)]) from error
