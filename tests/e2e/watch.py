"""Watches what each page says about the state of the detector, and what the API says at the same time."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

import httpx
from playwright.sync_api import Page

WELL = "HEALTHY"
SILENT = "NO ANSWER"
"""The word of a page, and of the API, while the server does not answer."""
_ASK_S = 0.5
_SILENCE_S = 2.0
_LOOK_MS = 1_000
_AHEAD_S = 3.0
"""A page can read a new state before this watch has an answer of the API about it."""
_READ = """() => {
    const text = (found) => (found?.textContent ?? "").replace(/\\s+/g, " ").trim();
    const banner = document.querySelector("section.outage");
    const own = document.querySelector('[role=status][aria-label=Detector] .chip, section[aria-label=Verdict] .chip');
    const isSilent = banner?.getAttribute("aria-label") === "No answer";
    return {
        banner: isSilent ? "NO ANSWER" : banner ? text(banner.querySelector(".chip")) : "",
        own: own ? text(own).toUpperCase() : "",
        text: text(banner),
        alarms: text(document.querySelector(".chip.alarms")),
    };
}"""


@dataclass(frozen=True, slots=True)
class Look:
    """What a page or the API said at a time: the word for the state, and the rest for a reader."""

    at_s: float
    word: str
    rest: str = ""


@dataclass
class Said:
    """The words of one source, in order of time."""

    looks: list[Look] = field(default_factory=list)

    def first(self, after_s: float, wanted: Callable[[str], bool]) -> float | None:
        """The time of the first wanted word after a time."""
        return next((look.at_s for look in self.looks if look.at_s >= after_s and wanted(look.word)), None)

    def well_since(self) -> float | None:
        """The time since which the state is well, None if it is not."""
        since = None
        for look in reversed(self.looks):
            if look.word != WELL:
                break
            since = look.at_s
        return since

    def lag_s(self, page: Said) -> float:
        """The longest time that a page still said what this source no longer said."""
        times = [look.at_s for look in self.looks]
        worst = 0.0
        for look in page.looks:
            last = bisect_right(times, look.at_s) - 1
            soon = self.looks[last + 1 : bisect_right(times, look.at_s + _AHEAD_S)]
            said = -1 if any(each.word == look.word for each in soon) else last
            while said >= 0 and self.looks[said].word != look.word:
                said -= 1
            if 0 <= said < last:
                worst = max(worst, look.at_s - self.looks[said + 1].at_s)
        return worst


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one page and one fault, in seconds: from the fault to its name on the page, from the repair to the end of the
    fault on the page, and the longest time that the page said what the API no longer said.
    """

    named_s: float | None
    well_s: float | None
    lag_s: float


@contextmanager
def truth(url: str, headers: Mapping[str, str]) -> Iterator[Said]:
    """Ask the API for the state twice a second meanwhile."""
    said, ended = Said(), Event()

    def ask() -> None:
        with httpx.Client(headers=headers, timeout=_SILENCE_S, trust_env=False) as client:
            while not ended.wait(_ASK_S):
                asked_s = time.monotonic()
                try:
                    word = word_of(client.get(f"{url}/api/liveness").raise_for_status().json())
                except httpx.HTTPError as error:
                    said.looks.append(Look(asked_s, SILENT, repr(error)))
                else:
                    said.looks.append(Look(time.monotonic(), word))

    asking = Thread(target=ask)
    asking.start()
    try:
        yield said
    finally:
        ended.set()
        asking.join()


def word_of(liveness: dict[str, object]) -> str:
    """The word for this state on every page. A state that needs no attention has no banner, so it counts as well."""
    verdict = liveness["verdict"]
    assert isinstance(verdict, dict)
    if liveness["severity"] == "NONE" and verdict["tone"] != "bad":
        return WELL
    is_delayed = verdict["name"] == WELL
    return "DELAYED" if is_delayed else str(verdict["name"]).replace("_", " ")


class Watch:
    """Looks at open pages once a second."""

    def __init__(self, pages: Mapping[str, Page], api: Said) -> None:
        self._pages = pages
        self._api = api
        self.pages = {name: Said() for name in pages}
        self.contradictions: list[str] = []

    def until(self, ended: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Look at the pages until a condition holds. Fails with `what` after `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        while not ended():
            assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
            self.look()

    def look(self) -> None:
        """Look at each page, and wait for the next second."""
        began_s = time.monotonic()
        for name, page in self._pages.items():
            seen = page.evaluate(_READ)
            word = seen["banner"] or WELL
            rest = " | ".join(filter(None, (seen["text"], seen["alarms"])))
            self.pages[name].looks.append(Look(time.monotonic(), word, rest))
            if seen["banner"] and seen["own"] not in ("", word):
                self.contradictions.append(f"{name}: the banner says {word}, the page {seen['own']}")
        page.wait_for_timeout(max(0.0, _LOOK_MS - 1_000 * (time.monotonic() - began_s)))

    def figures(self, fault_s: float, repair_s: float | None) -> dict[str, Figures]:
        """The figures of each page. Without a repair from outside, the API knows the end of the fault."""
        repair_s = self._api.well_since() if repair_s is None else repair_s
        found = {}
        for name, said in [("API", self._api), *self.pages.items()]:
            named_s, well_s = said.first(fault_s, lambda word: word != WELL), said.well_since()
            found[name] = Figures(
                None if named_s is None else named_s - fault_s,
                None if well_s is None or repair_s is None else max(0.0, well_s - repair_s),
                self._api.lag_s(said),
            )
        return found


def table(faults: Mapping[str, Mapping[str, Figures]]) -> str:
    """The figures as a table: a row for each page."""
    names = list(faults)
    lines = [
        "| page | " + " | ".join(f"{name}: named, well, lag (s)" for name in names) + " |",
        "| --- |" + " --- |" * len(names),
    ]
    lines += [
        f"| {page} | " + " | ".join(_cell(faults[name][page]) for name in names) + " |" for page in faults[names[0]]
    ]
    return "\n".join(lines)


def _cell(figures: Figures) -> str:
    return ", ".join(
        "never" if each is None else f"{each:.0f}" for each in (figures.named_s, figures.well_s, figures.lag_s)
    )


def spans(said: Said, since_s: float) -> Sequence[str]:
    """The words of a source with their first and last second, for a reader."""
    found: list[tuple[str, float, float]] = []
    for look in said.looks:
        if found and found[-1][0] == look.word:
            found[-1] = (look.word, found[-1][1], look.at_s)
        else:
            found.append((look.word, look.at_s, look.at_s))
    return [f"{word} {began_s - since_s:+.0f} to {ended_s - since_s:+.0f}" for word, began_s, ended_s in found]
