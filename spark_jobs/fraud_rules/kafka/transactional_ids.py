"""The transactional ids of this product's writers. Kafka fences the earlier writer of an id."""

from __future__ import annotations

CONTROL_PLANE_NAME = "fraud-control-plane"
"""The default of the control plane's `name`, which is the id of its publisher."""


def detector_id(detector: str) -> str:
    """The writer of a detector's batches."""
    return f"fraud-rules-{detector}"


def agent_id(detector: str) -> str:
    """The writer of the reports of a detector's agent."""
    return f"fraud-agent-{detector}"


def quarantine_replay_id(topic: str) -> str:
    """The writer that replays the records of a quarantine topic."""
    return f"fraud-quarantine-{topic}"


def reevaluation_id(detector: str, day: object = "") -> str:
    """The writer of a day's corrections. Without a day: the common prefix of the ids of all days."""
    return f"fraud-reevaluation-{detector}-{day}"
