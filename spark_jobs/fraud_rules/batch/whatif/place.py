"""The folder of a what-if's report, which follows from its result."""

from __future__ import annotations

from fraud_rules.runtime.clock import utc

FOLDER = "whatif"

LABELS_FILE = "labels.jsonl"
"""The labels of the control plane, in the archive. The control plane replaces the file after each change of a label."""


def report_name(evaluated_ms: int, rule_id: object) -> str:
    """The name of the report's folder within FOLDER of the archive."""
    stamp = utc(evaluated_ms).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return f"{stamp}-rule-{rule_id}"
