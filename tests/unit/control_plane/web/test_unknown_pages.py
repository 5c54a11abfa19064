"""Addresses that are no page: browsers get the pages, which say so; programs get a problem."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from fraud_ops.control_plane.paths import PAGES
from fraud_ops.control_plane.web.app import create_app

HTML = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "index.html").write_text("<title>Fraud rules</title>", encoding="utf-8")
    airflow = FastAPI()
    airflow.mount(PAGES, create_app(static=tmp_path))
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
