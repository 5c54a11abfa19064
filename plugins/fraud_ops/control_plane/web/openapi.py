"""Writes the API description to the file from which the types of the UI are generated.

Run `python -m fraud_ops.control_plane.web.openapi` after a change of the API.
"""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import FastAPI

from fraud_ops.control_plane.web.app import app

__all__ = ["FILE", "text"]

FILE = Path(__file__).parents[1] / "ui" / "openapi.json"


def text(application: FastAPI = app) -> str:
    """Encode the API description for the file."""
    return json.dumps(application.openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
