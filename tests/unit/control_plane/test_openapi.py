"""The pages' types are generated from a file, which must equal the application's OpenAPI document."""

from __future__ import annotations

from fraud_ops.control_plane.web import openapi


def test_the_file_equals_the_applications_document() -> None:
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.text(), (
        "run python -m fraud_ops.control_plane.web.openapi, and make the pages' types anew"
    )
