"""Addresses that are no page: browsers get the pages, which say so; programs get a problem."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from fraud_ops.paths import PAGES
from tests.support.control_plane.web.ui_files import undriven_app

HTML = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "index.html").write_text("<title>Fraud rules</title>", encoding="utf-8")
    airflow = FastAPI()
    airflow.mount(PAGES, undriven_app(tmp_path))
    return TestClient(airflow)


@pytest.mark.parametrize("path", ["/today", "/rules/7", "/nowhere", "/rules/7/more"])
def test_a_browser_gets_the_pages(client: TestClient, path: str) -> None:
    found = client.get(PAGES + path, headers=HTML)
    assert (found.status_code, found.text) == (200, "<title>Fraud rules</title>")


@pytest.mark.parametrize(("path", "headers"), [("/nowhere", {"accept": "application/json"}), ("/api/nowhere", HTML)])
def test_another_address_is_not_found(client: TestClient, path: str, headers: dict[str, str]) -> None:
    found = client.get(PAGES + path, headers=headers)
    assert found.status_code == 404
    assert found.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "/today", "/rules/7", "/nowhere"])
@pytest.mark.parametrize("prefix", ["", "/af"])
def test_the_page_names_its_files_below_the_path_of_airflow(tmp_path: Path, prefix: str, path: str) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "x.js").write_text("1", encoding="utf-8")
    (tmp_path / "index.html").write_text('<script src="./assets/x.js"></script>', encoding="utf-8")
    airflow = FastAPI(root_path=prefix)  # as Airflow is created with the path of its base_url
    airflow.mount(PAGES, undriven_app(tmp_path))
    client = TestClient(airflow)
    file = f"{prefix}{PAGES}/assets/x.js"
    assert client.get(f"{prefix}{PAGES}{path}", headers=HTML).text == f'<script src="{file}"></script>'
    assert client.get(file).text == "1"
