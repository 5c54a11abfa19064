"""Reports of nights and what-ifs, served by Airflow to whoever is logged in."""

from __future__ import annotations

import os
import re
from pathlib import Path

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse

from fraud_rules.project import Project

__all__ = ["app", "archive_folder"]

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NAME = re.compile(r"[0-9T.]{15,20}-rule-\d{1,12}")
# The pages hold no scripts; should data ever smuggle one in, a browser runs nothing.
_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}

app = FastAPI(dependencies=[Depends(get_user)], docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/nights/{day}", response_class=HTMLResponse)
def night(day: str) -> HTMLResponse:
    """The page of a day."""
    return _page(_DAY, day, Path("reevaluation", f"day={day}"))


@app.get("/whatif/{name}", response_class=HTMLResponse)
def whatif(name: str) -> HTMLResponse:
    """The page of a what-if."""
    return _page(_NAME, name, Path("whatif", name))


def _page(shape: re.Pattern[str], name: str, folder: Path) -> HTMLResponse:
    path = archive_folder() / folder / "report.html"
    if not shape.fullmatch(name) or not path.is_file():
        raise HTTPException(404, "there is no such report")
    return HTMLResponse(path.read_text(encoding="utf-8"), headers=_POLICY)


def archive_folder() -> Path:
    """As tasks see it; the API server has no task's access to variables, but the same environment."""
    named = os.environ.get("AIRFLOW_VAR_FRAUD_ARCHIVE")
    if named:
        return Path(named)
    from airflow.models.variable import Variable

    stored = Variable.get("fraud_archive", default_var=None)
    return Path(stored) if stored else Project.find().var / "archive"
