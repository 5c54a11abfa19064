"""Whether the archive keeps ahead of what retention removes. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fraud_rules.batch.archive.manifest import Manifest

__all__ = ["used_share"]


def used_share(manifest: Manifest, retention_ms: Mapping[str, int | None], now_ms: int) -> dict[str, float]:
    """By archived topic, how much of its retention has passed since the archive was last complete; 1.0 is too late."""
    behind_ms = max(0, now_ms - manifest.complete_until_ms)
    kept = {topic: retention_ms.get(topic) for topic in manifest.ends}
    return {topic: round(behind_ms / kept_ms, 4) for topic, kept_ms in kept.items() if kept_ms}
