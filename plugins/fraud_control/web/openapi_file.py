"""`python -m fraud_control.web.openapi_file` writes the description of the API for `bin/ui`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fraud_control.web.app import undriven_app
from fraud_control.web.openapi import text

__all__ = ["FILE"]

FILE: Final = Path(__file__).parents[1] / "ui" / "openapi.json"

if __name__ == "__main__":
    FILE.write_text(text(undriven_app()), encoding="utf-8")
