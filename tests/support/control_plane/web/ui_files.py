"""Writes what the build of the pages takes from Python: the description of the API, the aggregate functions, and the
gallery of templates. `bin/ui` runs `python -m tests.support.control_plane.web.ui_files`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from fastapi.requests import HTTPConnection

from fraud_control.composition import ControlPlane
from fraud_control.domain.errors import Unavailable
from fraud_control.web.app import create_app
from fraud_control.web.openapi import text
from fraud_control.web.problems import WebError
from fraud_ops.tickets import Ticket
from fraud_rules.codec.rules.files import read_file_text, read_rule_text
from fraud_rules.model.aggregate import COMPARABLE, AggregateFunction
from tests.support.places import ROOT

_PAGES: Final = ROOT / "plugins" / "fraud_control" / "ui"
_RULES: Final = ROOT / "examples" / "rules"
"""The rules of the gallery. The first line of a file is a comment: the title of its section."""
_BUILT: Final = _PAGES.with_name("static")
TEMPLATES: Final = _PAGES / "src" / "rules" / "templates.json"


def undriven_app(static: Path = _BUILT) -> FastAPI:
    """The application without a control plane and without logins, for its description and its pages as files."""

    async def refuse(_: HTTPConnection) -> Ticket:
        raise WebError(401, "this application has no logins")

    def fail(loop: asyncio.AbstractEventLoop, stack: ExitStack) -> ControlPlane:
        raise Unavailable("this application has no control plane")

    return create_app(fail, refuse, static)


def gallery() -> str:
    """Encode the templates: section, name, one sentence, and the rule without its id, state and description."""
    templates = [each for path in sorted(_RULES.glob("*.yaml")) for each in _templates(path)]
    return json.dumps(templates, indent=2, ensure_ascii=False) + "\n"


def _templates(path: Path) -> Iterator[dict[str, Any]]:
    content = read_file_text(path)
    section = content.partition("\n")[0].removeprefix("# ")
    for record in read_rule_text(path, content):
        rule = json.loads(record.value)
        document = {
            member: value for member, value in rule.items() if member not in ("ruleId", "ruleState", "description")
        }
        sentence = re.split(r"(?<=[.!?])\s", rule["description"], maxsplit=1)[0]
        yield {"section": section, "name": rule["name"], "description": sentence, "document": document}


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
    TEMPLATES.write_text(gallery(), encoding="utf-8")
