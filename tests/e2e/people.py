"""Browser windows of logged-in users."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from tests.e2e.world import World

WIDE = {"width": 1280, "height": 860}
MEDIUM = {"width": 800, "height": 860}
NARROW = {"width": 400, "height": 860}
WIDEST = {"width": 1920, "height": 1080}


class People:
    """Windows by user. An error on the console, also of the content security policy, fails the test at its end."""

    def __init__(self, running: World, browser: Browser) -> None:
        self._running = running
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._faults: list[str] = []

    def page(self, user: str, size: dict[str, int] | None = None, theme: str = "light") -> Page:
        """Open a window of a logged-in user; `theme` is the theme that the user selected in Airflow's UI."""
        return self._window(self._running.token(user), size, theme)

    def visitor(self) -> Page:
        """Open a window without a session."""
        return self._window(None, None, "light")

    def _window(self, token: str | None, size: dict[str, int] | None, theme: str) -> Page:
        context: BrowserContext = self._browser.new_context(
            viewport=size or WIDE,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        context.set_default_timeout(120_000)
        if token is not None:
            context.add_cookies([{"name": "_token", "value": token, "url": self._running.airflow.site.url}])
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._record)
        page.on("pageerror", lambda error: self._faults.append(str(error)))
        return page

    def open(self, user: str, path: str, **options: Any) -> Page:
        """Open a window at a page of the control plane."""
        page = self.page(user, **options)
        page.goto(self._running.control + path)
        return page

    def leave(self) -> None:
        for context in self._contexts:
            context.close()
        assert not self._faults, self._faults

    def _record(self, message: ConsoleMessage) -> None:
        # The browser reports each refused request on the console. The pages show those errors themselves.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self._faults.append(message.text)
