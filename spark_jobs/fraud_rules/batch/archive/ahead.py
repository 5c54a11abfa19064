"""Checks whether the archive copies records before retention removes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fraud_rules.batch.archive.manifest import Manifest


def used_share(manifest: Manifest, retention_ms: Mapping[str, int | None], now_ms: int) -> dict[str, float]:
    """The share of each topic's retention that has passed since the archive was complete. At 1.0 records are lost."""
    behind_ms = max(0, now_ms - manifest.complete_until_ms)
    kept = {topic: retention_ms.get(topic) for topic in manifest.ends}
    return {topic: round(behind_ms / kept_ms, 4) for topic, kept_ms in kept.items() if kept_ms}
