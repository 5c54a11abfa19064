"""The pages as files: their paths, and that they run only files of this server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from fraud_rules.configuration.project import Project
from tests.support.control_plane.web.ui_files import undriven_app


@pytest.mark.parametrize("path", ["/", "/rules", "/rules/new", "/rules/12", "/alerts", "/detector", "/admin"])
def test_every_path_of_a_page_returns_the_same_file(path: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("the page", encoding="utf-8")
    answer = TestClient(undriven_app(tmp_path)).get(path, headers={"accept": "text/html"})
    assert (answer.status_code, answer.text) == (200, "the page")
    assert "script-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path", ["/elsewhere", "/api/elsewhere", "/rules/12/more", "/assets/../index.html", "/assets/x.js"]
)
def test_other_paths_are_not_found(path: str, tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("the page", encoding="utf-8")
    assert TestClient(undriven_app(tmp_path)).get(path).status_code == 404


def test_the_page_has_no_inline_script_and_no_script_of_another_site(project: Project) -> None:
    page = (project.root / "plugins/fraud_control/static/index.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    assert scripts
    for attributes, body in scripts:
        assert body.strip() == ""
        assert 'src="./assets/' in attributes
    assert not re.findall(r"""(?:src|href)=["'](?!\./assets/)""", page)
