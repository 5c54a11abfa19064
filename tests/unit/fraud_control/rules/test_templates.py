"""The gallery of templates, which is generated from the cookbook."""

from __future__ import annotations

import json

from fraud_control.web import templates
from fraud_rules.configuration.project import Project


def test_the_gallery_of_templates_equals_the_cookbook(project: Project) -> None:
    shown = json.loads(templates.FILE.read_text(encoding="utf-8"))
    assert shown == json.loads(templates.text(project)), (
        "run python -m fraud_control.web.templates, and build the pages"
    )
