"""`python -m fraud_control.web.openapi_file` writes what the pages take from the server at their build, for `bin/ui`:
the description of the API, and the aggregate functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from fraud_control.web.app import undriven_app
from fraud_control.web.openapi import text
from fraud_rules.model.aggregate import COMPARABLE, AggregateFunction

_PAGES: Final = Path(__file__).parents[1] / "ui"


def _aggregates() -> str:
    return json.dumps(
        {
            each: {
                "words": each.traits.words,
                "input": each.traits.input,
                "moreRows": each.traits.more_rows,
                "comparable": each in COMPARABLE,
            }
            for each in AggregateFunction
        }
    )


if __name__ == "__main__":
    (_PAGES / "openapi.json").write_text(text(undriven_app()), encoding="utf-8")
    (_PAGES / "src" / "aggregates.json").write_text(_aggregates(), encoding="utf-8")
