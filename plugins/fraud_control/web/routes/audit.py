"""Routes of the audit log: the list, its export, and the check of the chain."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from fraud_control.composition import ControlPlane
from fraud_control.domain import read_models
from fraud_control.domain.canonical import encoded
from fraud_control.domain.masking import Mask
from fraud_control.domain.read_models import AuditRow, Page
from fraud_control.service import audit
from fraud_control.service.audit import AuditFilter
from fraud_control.service.ids import check_page
from fraud_control.web.alert_query import Time, time_ms
from fraud_control.web.answer import answer, streamed_file
from fraud_control.web.auth import CurrentUser
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName, Lanes
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import admin as schemas
from fraud_control.web.schemas.base import MAX_ID
from fraud_rules.codec.rules.collections.records import COLLECTION_NAME
from fraud_rules.runtime.clock import now_ms, utc
from fraud_rules.runtime.safe_text import without_formula

routes = router("audit")

_PIECE: Final = 500
_CSV: Final = "text/csv; charset=utf-8"
_COLUMNS: Final = ("row", "time", "user", "program", "action", "subject", "before", "after", "hash")


class AuditQuery(BaseModel):
    """The filter. `since` is inclusive, `until` exclusive."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    rule_id: Annotated[int | None, Field(ge=1, le=MAX_ID)] = None
    list_name: Annotated[str | None, Field(pattern=f"^{COLLECTION_NAME}$")] = None
    map_name: Annotated[str | None, Field(pattern=f"^{COLLECTION_NAME}$")] = None
    user: Annotated[str | None, Field(max_length=100)] = None
    action: Annotated[
        str | None,
        Field(
            pattern=r"^[a-z_]{1,32}(\.[a-z_]{1,32})?$",
            description="An action such as rule.edit, or its part before the point, such as rule.",
        ),
    ] = None
    since: Time = None
    until: Time = None

    def filter(self, at_ms: int) -> AuditFilter:
        """Build the filter. Ages count from `at_ms`."""
        since_ms, until_ms = time_ms(self.since, at_ms), time_ms(self.until, at_ms)
        return AuditFilter(self.rule_id, self.list_name, self.map_name, self.user, self.action, since_ms, until_ms)


class AuditPageQuery(AuditQuery):
    """The filter, and the page of it."""

    before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None
    limit: Annotated[int, Query(ge=1, le=500)] = 100


@routes.get("/audit", response_model=schemas.Audits, openapi_extra=least("auditor"))
def list_audit(plane: CurrentPlane, query: Annotated[AuditPageQuery, Query()]) -> Response:
    """List the rows of the audit log that match all filters, newest first."""
    check_page(query.limit, plane.settings.bounds.page)
    page = _page(plane, query.filter(now_ms()), query.before, query.limit)
    return answer(schemas.Audits(items=list(page.items), next=page.next))


@routes.get(
    "/audit/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/csv": {}}}},
    openapi_extra=least("auditor"),
)
async def export_audit(
    plane: CurrentPlane, user: CurrentUser, request: Request, query: Annotated[AuditQuery, Query()]
) -> Response:
    """Export the rows that match all filters as CSV, newest first, at most 100,000."""
    lanes: Lanes = request.app.state.lanes
    pieces = _pieces(plane, query.filter(now_ms()), plane.masking.of(user[1]), lanes, user[0])
    return await streamed_file(pieces, f"audit-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.csv", _CSV)


@routes.get("/audit/verify", response_model=read_models.AuditState, openapi_extra=least("auditor"))
def verify_audit(plane: CurrentPlane) -> Response:
    """Read the state of the verification of the audit chain. It runs in the background: each minute it checks up to
    10,000 new rows, and as many earlier rows again. `fraud store verify` checks all rows at once."""
    with plane.store.reading() as work:
        return answer(audit.scan_state(work.session).shown(work.session))


def _page(plane: ControlPlane, chosen: AuditFilter, before: int | None, limit: int) -> Page[AuditRow]:
    with plane.store.reading() as work:
        return audit.rows(work.session, chosen, before=before, limit=limit)


async def _pieces(
    plane: ControlPlane, chosen: AuditFilter, mask: Mask, lanes: Lanes, user: str
) -> AsyncIterator[bytes]:
    """Yield the file. Each piece waits for its turn in the lane of exports, so an export holds no thread in between."""
    head: Sequence[Sequence[object]] = [_COLUMNS]
    before: int | None = None
    left = plane.settings.bounds.export_rows
    while left > 0:
        read = partial(_page, plane, chosen, before, min(_PIECE, left))
        page = await lanes[LaneName.FILES].run(user, read)
        yield _lines([*head, *(_cells(row, mask) for row in page.items)])
        head = ()
        left -= len(page.items)
        if page.next is None:
            return
        before = int(page.next)


def _cells(row: AuditRow, mask: Mask) -> Sequence[object]:
    time = utc(row.at_ms).isoformat(timespec="milliseconds")
    before, after = ("" if each is None else encoded(mask(each)) for each in (row.before, row.after))
    return row.seq, time, row.who, row.program or "", row.action, row.subject, before, after, row.hash


def _lines(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([without_formula(cell) for cell in row] for row in rows)
    return text.getvalue().encode()
