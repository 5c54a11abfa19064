"""Every page shows the truth during four faults: a killed JVM, unreadable records, a hanging broker, a hanging API.

A watch reads the state on each open page once a second, and asks the API meanwhile. The table of the figures and the
words of each page are in `walk.md` in the test's folder.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from fraud_local.airflow import Component
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.record_writer import append_records
from tests.e2e.people import WIDE
from tests.e2e.watch import WELL, Figures, Said, Watch, spans, table, truth
from tests.support.processes.supervised import Supervised, supervised

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3_000)]

PATHS = (
    "today", "rules", "rules/1", "lists", "maps", "alerts", "cases", "decisions", "approvals", "quality",
    "notifications", "detector", "audit", "admin",
)  # fmt: skip
WINDOWS = 4
LAG_S = 10.0
"""The pages read the state every 5 s."""
SILENT_LAG_S = 13.0
"""A page waits 9 s for an answer before it says that there is none."""
HANGS_S = {"broker": 60.0, "API": 50.0}
UNREADABLE = 9_000
API_HANGS = "API hung 50 s"
QUIET_S = 15.0
ENDS_S = 900.0


@dataclass
class Scene:
    """A supervised installation and the watch over its pages."""

    world: Supervised
    watch: Watch
    api: Said

    def is_quiet(self) -> bool:
        """Whether the API and all pages have said for a while that the state is well."""
        since = [said.well_since() for said in (self.api, *self.watch.pages.values())]
        return all(each is not None and time.monotonic() - each > QUIET_S for each in since)

    def await_quiet(self, what: str) -> None:
        self.watch.until(self.is_quiet, what, ENDS_S)


@pytest.fixture(scope="module")
def world(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    with supervised(project, tmp_path_factory.mktemp("breakages")) as found:
        yield found


def kill_jvm(scene: Scene) -> float | None:
    [jvm] = [process for process in scene.world.members() if process.name() == "java"]
    jvm.kill()
    return None


def send_unreadable(scene: Scene) -> float | None:
    topic = scene.world.context.settings.topics.transactions
    append_records(scene.world.site.broker.kafka, topic, [(b"0", b'{"transactionId": "?"') for _ in range(UNREADABLE)])
    return None


def hang_broker(scene: Scene) -> float | None:
    pid = scene.world.site.broker.status().pid
    assert pid is not None
    return hang(scene, [psutil.Process(pid)], HANGS_S["broker"])


def hang_api(scene: Scene) -> float | None:
    return hang(scene, list(scene.world.site.airflow.processes(Component.CONTROL_PLANE)), HANGS_S["API"])


def hang(scene: Scene, processes: list[psutil.Process], seconds: float) -> float:
    """Suspend the processes for this long. Return the time of their resumption."""
    ended_s = time.monotonic() + seconds
    for process in processes:
        process.suspend()
    try:
        scene.watch.until(lambda: time.monotonic() > ended_s, "the suspension ends", seconds + 60)
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
    return time.monotonic()


FAULTS: dict[str, Callable[[Scene], float | None]] = {
    "JVM killed": kill_jvm,
    "9,000 unreadable records": send_unreadable,
    "broker hung 60 s": hang_broker,
    API_HANGS: hang_api,
}


def test_every_page_shows_each_fault_and_its_end(world: Supervised, browser: Browser, tmp_path: Path) -> None:
    site = world.site.airflow.site
    control = f"{site.url}/fraud/control"
    windows = [window(browser, site.url, world.api.token()) for _ in range(WINDOWS)]
    pages = {path: windows[number % WINDOWS].new_page() for number, path in enumerate(PATHS)}
    for path, page in pages.items():
        page.goto(f"{control}/{path}")
        expect(page.get_by_text("Live updates")).to_be_visible()
    found = {}
    with (tmp_path / "walk.md").open("w", encoding="utf-8") as report:
        for name, break_it in FAULTS.items():
            with truth(control, world.api.headers()) as api:
                scene = Scene(world, Watch(pages, api), api)
                found[name] = walk(scene, name, break_it, report)
        report.write(table(found))
    for name, rows in found.items():
        limit_s = SILENT_LAG_S if name == API_HANGS else LAG_S
        late = {page: row for page, row in rows.items() if row.named_s is None or row.lag_s > limit_s}
        assert not late, (name, late)


def window(browser: Browser, url: str, token: str) -> BrowserContext:
    """Open a browser of its own: the tabs of one browser share six connections, and a user may have a few streams."""
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")  # type: ignore[arg-type]
    context.set_default_timeout(120_000)
    context.add_cookies([{"name": "_token", "value": token, "url": url}])
    return context


def walk(scene: Scene, name: str, break_it: Callable[[Scene], float | None], report: TextIO) -> dict[str, Figures]:
    """Cause a fault, and watch the pages until all is well again. The report gets what each page said, and when."""
    scene.await_quiet(f"the installation is well before: {name}")
    fault_s = time.monotonic()
    repair_s = break_it(scene)
    scene.watch.until(lambda: scene.api.first(fault_s, lambda word: word != WELL) is not None, name, ENDS_S)
    scene.await_quiet(f"the installation is well after: {name}")
    for page, said in [("API", scene.api), *scene.watch.pages.items()]:
        report.write(f"{name}, {page}: {'; '.join(spans(said, fault_s))}\n")
        report.writelines(f"    {line}\n" for line in dict.fromkeys(look.rest for look in said.looks))
    report.flush()
    assert not scene.watch.contradictions
    return scene.watch.figures(fault_s, repair_s)
