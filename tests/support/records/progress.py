"""A sample of the progress of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fraud_rules.logs.detector_status import BatchProgress

_COUNTS = ("rows", "quarantined", "alerts", "shadowAlerts", "late", "duplicates", "rulesInForce", "retainedEvents")


def progress_document(batch_id: int, ends: Mapping[str, Mapping[str, int]], **members: Any) -> dict[str, Any]:
    """The progress of a batch that has read up to these ends, by topic and partition. Its counts are 0 by default."""
    known = {"queryId": "q", "batchId": batch_id, "endOffsets": ends, "rulesEnd": 0, "rulesRefused": []}
    return {**known, **dict.fromkeys(_COUNTS, 0), **members}


def progress_record(batch_id: int, ends: Mapping[str, Mapping[str, int]], **members: Any) -> bytes:
    """The record of `progress_document`, as a detector writes it."""
    return msgspec.json.encode(progress_document(batch_id, ends, **members))


def batch_progress(batch_id: int, ends: Mapping[str, Mapping[str, int]], **members: Any) -> BatchProgress:
    """The same with the members of BatchProgress."""
    return msgspec.structs.replace(msgspec.convert(progress_document(batch_id, ends), BatchProgress), **members)
