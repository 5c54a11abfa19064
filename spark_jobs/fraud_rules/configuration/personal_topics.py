"""The topics that hold ids of people, as docs/privacy.md describes them."""

from __future__ import annotations

from typing import Final

PERSONAL_TOPICS: Final = frozenset(
    {
        "transactions", "rules", "rules_cdc", "alerts", "shadow_alerts", "alert_corrections", "restrictions",
        "late_transactions", "quarantine", "evaluations", "detector_state", "warm_ups",
    }
)  # fmt: skip
"""Their roles, as `TopicNames` names them. Kafka can delete single records of none of them: no topic has an id of a
person as its key."""
