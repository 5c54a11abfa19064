"""Writes the rules of examples/rules to the file from which the pages show the gallery of templates.

Run `python -m fraud_control.web.templates` after a change of these files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fraud_rules.codec.rules.files import read_file_text, read_rule_text
from fraud_rules.configuration.project import Project

FILE: Final = Path(__file__).parents[1] / "ui" / "src" / "rules" / "templates.json"
RULES: Final = Path("examples", "rules")
"""The folder of the rules in the project. The first line of a file is a comment: the title of its section."""


def text(project: Project) -> str:
    """Encode the templates: section, name, one sentence, and the rule without its id, state and description."""
    templates = [each for path in sorted((project.root / RULES).glob("*.yaml")) for each in _templates(path)]
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


if __name__ == "__main__":
    FILE.write_text(text(Project.find()), encoding="utf-8")
