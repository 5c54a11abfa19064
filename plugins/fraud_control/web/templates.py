"""Writes the rules of docs/rules.md to the file from which the pages show the gallery of templates.

Run `python -m fraud_control.web.templates` after a change of that page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from fraud_rules.codec.rules.files import read_rule_text
from fraud_rules.configuration.project import Project

FILE: Final = Path(__file__).parents[1] / "ui" / "src" / "rules" / "templates.json"

_SECTION = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_RULE = re.compile(r"^### (.+?)$\n(.+?)^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text(project: Project) -> str:
    """Encode the templates: section, name, one sentence, and the rule without its id and state."""
    page = (project.root / "docs" / "rules.md").read_text(encoding="utf-8")
    templates = [
        _template(section, *rule) for section, content in _SECTION.findall(page) for rule in _RULE.findall(content)
    ]
    return json.dumps(templates, indent=2, ensure_ascii=False) + "\n"


def _template(section: str, name: str, description: str, yaml: str) -> dict[str, Any]:
    (record,) = read_rule_text(Path("rules.yaml"), yaml)
    document = {
        member: value for member, value in json.loads(record.value).items() if member not in ("ruleId", "ruleState")
    }
    sentence = re.split(r"(?<=[.!?])\s", " ".join(description.split()), maxsplit=1)[0]
    return {"section": section, "name": name, "description": sentence, "document": document}


if __name__ == "__main__":
    FILE.write_text(text(Project.find()), encoding="utf-8")
