"""The gallery of templates, which is generated from the cookbook."""

from __future__ import annotations

import json

from tests.support.control_plane.web.ui_files import TEMPLATES, gallery


def test_the_gallery_of_templates_equals_the_cookbook() -> None:
    assert json.loads(TEMPLATES.read_text(encoding="utf-8")) == json.loads(gallery()), "run make ui"
