"""The pages' types are made from a file: it has to be what the application says of itself."""

from __future__ import annotations

from fraud_ops.control_plane.web import openapi


def test_the_file_is_what_the_application_says() -> None:
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.text(), (
        "run python -m fraud_ops.control_plane.web.openapi, and make the pages' types anew"
    )
