"""Files of the pages that are generated: the types from the OpenAPI document, the templates from the cookbook."""

from __future__ import annotations

import json

from fraud_ops.control_plane.web import openapi, templates
from fraud_ops.control_plane.web.app import undriven_app
from fraud_rules.configuration.project import Project


def test_the_file_equals_the_applications_document() -> None:
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.text(undriven_app()), (
        "run python -m fraud_ops.control_plane.web.openapi, and make the pages' types anew"
    )


def test_the_gallery_of_templates_equals_the_cookbook(project: Project) -> None:
    shown = json.loads(templates.FILE.read_text(encoding="utf-8"))
    assert shown == json.loads(templates.text(project)), (
        "run python -m fraud_ops.control_plane.web.templates, and build the pages"
    )
