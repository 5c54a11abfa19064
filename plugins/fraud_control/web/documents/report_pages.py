"""Pages with the reports of re-evaluations and what-ifs, and their numbers as JSON, for viewers.

A report is a file with whole keys. So roles that see masked values cannot read one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import Response

from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import unreachable_named
from fraud_rules.errors import ArchiveUnreachable

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NAME = re.compile(r"[0-9T.]{15,20}-rule-\d{1,12}")
_KINDS = {"report.html": "text/html; charset=utf-8", "result.json": "application/json"}
# The pages have no scripts. If data ever injects one, the browser does not run it.
_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}


def create_app(archive: ArchivePath, reader: Callable[..., Any]) -> FastAPI:
    """Create the pages of an archive. The dependency `reader` admits their readers."""
    app = FastAPI(dependencies=[Depends(reader)], docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/nights/{day}/{file}")
    def night(day: str, file: str) -> Response:
        """The report of a day, or its numbers."""
        return _file(_DAY, day, archive / "reevaluation" / f"day={day}", file)

    @app.get("/whatif/{name}/{file}")
    def what_if(name: str, file: str) -> Response:
        """The report of a what-if, or its numbers."""
        return _file(_NAME, name, archive / "whatif" / name, file)

    return app


def _file(shape: re.Pattern[str], name: str, folder: ArchivePath, file: str) -> Response:
    if not shape.fullmatch(name) or file not in _KINDS:
        raise HTTPException(404, "no such report")
    path = folder / file
    try:
        with unreachable_named(path):
            content = path.read_bytes()
    except ArchiveUnreachable as error:
        raise HTTPException(503, str(error)) from error
    except OSError as error:
        raise HTTPException(404, "no such report") from error
    return Response(content, headers={**_POLICY, "Content-Type": _KINDS[file]})
