"""Pages with the runbooks, for every user with a login, and with the ends of the detector's logs, for viewers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, PlainTextResponse
from markdown_it import MarkdownIt

from fraud_rules.configuration.project import Project

__all__ = ["create_app", "visible_log"]

_TAIL_BYTES = 262_144
_ATTEMPTS = "attempts"
_LOGS = frozenset({"detector.log", "check.log", "starter.log"})
_SLUG = re.compile(r"[a-z][a-z-]{0,40}")
_LINK = re.compile(r'href="([a-z-]+)\.md"')
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; color: #1a202c; }}
pre {{ background: #edf2f7; padding: .7rem; overflow-x: auto; }} code {{ font-size: .9em; }}
td, th {{ text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; }}
</style>{body}<p><a href="README">All runbooks</a></p></html>"""


def create_app(viewer: Callable[..., Any]) -> FastAPI:
    """Create the pages. The dependency `viewer` admits the readers of logs. No page is public."""
    app = FastAPI(dependencies=[Depends(get_user)], docs_url=None, redoc_url=None, openapi_url=None)
    app.get("/runbooks/{slug}", response_class=HTMLResponse)(_runbook)
    app.get("/logs", response_class=PlainTextResponse, dependencies=[Depends(viewer)])(_log)
    return app


def _runbook(slug: str) -> HTMLResponse:
    """One runbook as HTML."""
    path = _path(slug)
    if path is None or not path.is_file():
        raise HTTPException(404, "no such runbook")
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(path.read_text(encoding="utf-8"))
    return HTMLResponse(_PAGE.format(title=slug, body=_LINK.sub(r'href="\1"', body)))


def _log(path: str, host: str = "") -> PlainTextResponse:
    """The end of a log, if this host has the file. Otherwise, the place of the file."""
    file = visible_log(path, Project.find())
    if file is None:
        return PlainTextResponse(f"The log is on {host or 'the host of the agent'}: {path}\n")
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - _TAIL_BYTES))
        return PlainTextResponse(content.read().decode("utf-8", "replace"))


def visible_log(path: str, project: Project) -> Path | None:
    """The file, if it is the log of an attempt below var/ of this project. No other file is visible.

    A local broker also keeps files with the suffix .log below var/: the payments.
    """
    file = Path(path).resolve()
    of_attempt = file.name in _LOGS and file.parent.parent.name == _ATTEMPTS
    return file if of_attempt and file.is_relative_to(project.var.resolve()) and file.is_file() else None


def _path(slug: str) -> Path | None:
    if slug != "README" and not _SLUG.fullmatch(slug):
        return None
    return Project.find().root / "docs" / "runbooks" / f"{slug}.md"
