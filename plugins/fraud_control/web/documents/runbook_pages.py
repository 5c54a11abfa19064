"""Pages with the runbooks, for every user with a login, and with the ends of the detector's logs, for viewers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse
from markdown_it import MarkdownIt

from fraud_ops.runbooks import DAG_IDS
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.shipped import RUNBOOK_PAGES, shipped

_TAIL_BYTES = 262_144
_ATTEMPTS = "attempts"
_LOGS = frozenset({"detector.log", "check.log", "starter.log"})
_SLUG = re.compile(r"[a-z][a-z-]{0,40}")
_LINK = re.compile(r'href="([a-z-]+)\.md"')
_OTHER_DOCUMENT = re.compile(r'<a href="\.\./([^"#]+)[^"]*">(.*?)</a>', re.DOTALL)
_COMMANDS = re.compile(r"<pre>.*?</pre>", re.DOTALL)
_DAG_COMMAND = re.compile(r"airflow dags [a-z-]+ (fraud_[a-z_]+)")
_DAG = re.compile(r"<code>(fraud_[a-z_]+)</code>")
_FILES = {"runbook.css": "text/css", "runbook.js": "text/javascript"}
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="runbook.css"><script src="runbook.js"></script></head>
<body><nav aria-label="Runbooks"><a id="back" href="../control/detector">Back</a><a href="README">All runbooks</a></nav>
<main>{body}</main></body></html>"""


def create_app(user: Callable[..., Any], viewer: Callable[..., Any]) -> FastAPI:
    """Create the pages. The dependency `user` admits all users, `viewer` the readers of logs. No page is public."""
    app = FastAPI(dependencies=[Depends(user)], docs_url=None, redoc_url=None, openapi_url=None)
    for name in _FILES:
        app.get(f"/runbooks/{name}")(_file)
    app.get("/runbooks/{slug}", response_class=HTMLResponse)(_runbook)
    app.get("/logs", response_class=PlainTextResponse, dependencies=[Depends(viewer)])(_log)
    return app


def _file(request: Request) -> FileResponse:
    """The style or the script of the runbooks."""
    name = request.url.path.rpartition("/")[2]
    return FileResponse(Path(__file__).with_name(name), media_type=_FILES[name])


def _runbook(slug: str) -> HTMLResponse:
    """One runbook as HTML."""
    path = _path(slug)
    if path is None or not path.is_file():
        raise HTTPException(404, "no such runbook")
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(path.read_text(encoding="utf-8"))
    return HTMLResponse(_PAGE.format(title=slug, body=_with_links(body)))


def _with_links(body: str) -> str:
    """Link other runbooks, and the DAGs that a runbook names. Other documents are not served: their paths are text."""

    def link(dag: str, text: str) -> str:
        return f'<a href="../../dags/{dag}" target="_top">{text}</a>' if dag in DAG_IDS else text

    def below(commands: re.Match[str]) -> str:
        named = dict.fromkeys(_DAG_COMMAND.findall(commands[0]))
        return commands[0] + "".join(f"<p>{link(dag, f'Open {dag} in Airflow')}</p>" for dag in named)

    body = _LINK.sub(r'href="\1"', body)
    body = _OTHER_DOCUMENT.sub(r"\2 (<code>docs/\1</code>)", body)
    return _DAG.sub(lambda code: link(code[1], code[0]), _COMMANDS.sub(below, body))


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
    return shipped() / RUNBOOK_PAGES / f"{slug}.md"
