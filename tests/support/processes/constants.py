"""A detector in whose processes some constants of the product have other values."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from tests.support.processes.running_detector import Installation

_FOLDER = Path(__file__).parent / "seams"


def with_constants(installation: Installation, **constants: object) -> Installation:
    """Set constants by `module__NAME`, where the module is below `fraud_rules.stream` and `__` stands for a dot.

    Raises ModuleNotFoundError or AttributeError for a constant that the product does not have.
    """
    modules: dict[str, dict[str, object]] = {}
    for name, value in constants.items():
        *parts, constant = name.split("__")
        module = ".".join(["fraud_rules.stream", *parts])
        getattr(import_module(module), constant)
        modules.setdefault(module, {})[constant] = value
    return replace(installation, extra={"PYTHONPATH": str(_FOLDER), "DETECTOR_SEAMS": json.dumps(modules)})
