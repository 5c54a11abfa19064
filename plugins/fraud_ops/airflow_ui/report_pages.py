"""Pages with the reports of re-evaluations and what-ifs, and their numbers as JSON, for viewers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import Response

from fraud_rules.batch.archive.place import ArchivePath, archive_path
from fraud_rules.batch.archive.store import unreachable_named
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ArchiveUnreachable

__all__ = ["archive_root", "create_app"]

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NAME = re.compile(r"[0-9T.]{15,20}-rule-\d{1,12}")
_KINDS = {"report.html": "text/html; charset=utf-8", "result.json": "application/json"}
# The pages have no scripts. If data ever injects one, the browser does not run it.
_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}


def create_app(viewer: Callable[..., Any]) -> FastAPI:
    """Create the pages. The dependency `viewer` admits their readers."""
    app = FastAPI(dependencies=[Depends(viewer)], docs_url=None, redoc_url=None, openapi_url=None)
    app.get("/nights/{day}/{file}")(_night)
    app.get("/whatif/{name}/{file}")(_whatif)
    return app


def _night(day: str, file: str) -> Response:
    """The report of a day, or its numbers."""
    return _file(_DAY, day, f"reevaluation/day={day}", file)


def _whatif(name: str, file: str) -> Response:
    """The report of a what-if, or its numbers."""
    return _file(_NAME, name, f"whatif/{name}", file)


def _file(shape: re.Pattern[str], name: str, folder: str, file: str) -> Response:
    if not shape.fullmatch(name) or file not in _KINDS:
        raise HTTPException(404, "no such report")
    path = archive_root() / folder / file
    try:
        with unreachable_named(path):
            content = path.read_bytes()
    except ArchiveUnreachable as error:
        raise HTTPException(503, str(error)) from error
    except OSError as error:
        raise HTTPException(404, "no such report") from error
    return Response(content, headers={**_POLICY, "Content-Type": _KINDS[file]})


def archive_root() -> ArchivePath:
    """The place that tasks use. The API server cannot read variables as tasks do, but has the same environment."""
    named = os.environ.get("AIRFLOW_VAR_FRAUD_ARCHIVE")
    if not named:
        from airflow.models.variable import Variable

        named = Variable.get("fraud_archive", default_var=None)
    return archive_path(named or str(Project.find().var / "archive"))
