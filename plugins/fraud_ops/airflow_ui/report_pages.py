"""Pages with the reports of re-evaluations and what-ifs, and their numbers as JSON, for viewers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import Response

from fraud_rules.configuration.project import Project

__all__ = ["archive_folder", "create_app"]

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
    return _file(_DAY, day, Path("reevaluation", f"day={day}"), file)


def _whatif(name: str, file: str) -> Response:
    """The report of a what-if, or its numbers."""
    return _file(_NAME, name, Path("whatif", name), file)


def _file(shape: re.Pattern[str], name: str, folder: Path, file: str) -> Response:
    path = archive_folder() / folder / file
    if not shape.fullmatch(name) or file not in _KINDS or not path.is_file():
        raise HTTPException(404, "no such report")
    return Response(path.read_bytes(), headers={**_POLICY, "Content-Type": _KINDS[file]})


def archive_folder() -> Path:
    """The folder that tasks use. The API server cannot read variables as tasks do, but has the same environment."""
    named = os.environ.get("AIRFLOW_VAR_FRAUD_ARCHIVE")
    if named:
        return Path(named)
    from airflow.models.variable import Variable

    stored = Variable.get("fraud_archive", default_var=None)
    return Path(stored) if stored else Project.find().var / "archive"
