"""Fixtures: the installation, a browser, and its users."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from fraud_rules.configuration.project import Project
from tests.e2e.at_work import put_to_work
from tests.e2e.people import People
from tests.e2e.world import World, world

WAIT_MS = 120_000  # on a new machine, the first detector compiles its kernel


@pytest.fixture(scope="package")
def running(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(project, tmp_path_factory.mktemp("e2e")) as found:
        yield found


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: as root, bin/bootstrap --browser")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server"]
        )
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def fired(running: World) -> int:
    """Create data for every page. Return the id of a live rule that has fired."""
    return put_to_work(running)


@pytest.fixture
def people(running: World, browser: Browser) -> Iterator[People]:
    """Open a window per user, and close all windows after the test."""
    found = People(running, browser)
    yield found
    found.leave()


@pytest.fixture
def page(people: People) -> Page:
    """Open the window of the analyst."""
    return people.page("ann")
