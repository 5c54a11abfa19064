"""A detector in whose processes some constants of the product have other values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.support.processes.running_detector import Installation

_FOLDER = Path(__file__).parent / "seams"


def with_constants(installation: Installation, **constants: object) -> Installation:
    """Set constants by `module__NAME`, where the module is below `fraud_rules.stream` and `__` stands for a dot."""
    modules: dict[str, dict[str, object]] = {}
    for name, value in constants.items():
        *module, constant = name.split("__")
        modules.setdefault(".".join(["fraud_rules.stream", *module]), {})[constant] = value
    return replace(installation, extra={"PYTHONPATH": str(_FOLDER), "DETECTOR_SEAMS": json.dumps(modules)})
