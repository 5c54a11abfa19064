"""Routes of alerts: the list, the event stream, evidence, proofs, alert marks, snoozes and rule quality."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated

import msgspec
from fastapi import Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from fraud_control.composition import ControlPlane
from fraud_control.domain import read_models
from fraud_control.domain.alert_search import AlertSearch, AlertSort
from fraud_control.domain.errors import NotFound
from fraud_control.feed.events import FeedAlert
from fraud_control.feed.fire_stats import RuleFireStats
from fraud_control.feed.follower import FeedReader
from fraud_control.feed.hub import Seat
from fraud_control.feed.place import FeedPlace
from fraud_control.service import alert_marks
from fraud_control.web.alert_query import AlertQuery, position_of
from fraud_control.web.answer import ZIP_ANSWER, answer, json_answer, nothing, zip_answer
from fraud_control.web.auth import CurrentActor, CurrentUser
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.problems import WebError
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import alerts as schemas
from fraud_control.web.schemas.base import MAX_ID
from fraud_control.web.stream import AlertEncoder, encode_position, masked_events, reserve_seat
from fraud_rules.runtime.clock import now_ms

routes = router("alerts")

AlertId = Annotated[str, Path(pattern=r"^[0-9a-fA-F-]{36}$")]
Position = Annotated[str | None, Query(max_length=100)]

_POLL_INTERVAL_S = 0.05
_CAUGHT_UP_S = 30.0
_STREAM_S = 600.0  # then the client must connect again, which checks its login again
_STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class _EventStream(StreamingResponse):
    """A stream of events. Its end, also before its first event, frees the seat of its reader."""

    def __init__(self, seat: Seat, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, 200, _STREAM_HEADERS, "text/event-stream")
        self._seat = seat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._seat.release()


class ListQuery(AlertQuery):
    """The search, and the page of it."""

    key: Annotated[str, Query(max_length=200)] = ""
    before: Annotated[str | None, Query(max_length=100)] = None
    limit: Annotated[int, Query(ge=1, le=500)] = 50


@routes.get("/alerts", response_model=schemas.Alerts, openapi_extra=least("viewer"))
def list_alerts(plane: CurrentPlane, query: Annotated[ListQuery, Query()]) -> Response:
    """List alerts, newest first: the alerts in memory (up to 50,000), then older ones from the topics. `key` searches
    for text in the values of the key.

    `shadow` selects only shadow alerts (true) or only others (false); `corrections` does the same with corrected
    alerts. `snoozed` includes alerts of snoozed rules and keys. A page with `searchedTo` may have few alerts or none;
    `next` continues the search.

    A search by time, severity, amount, verdict, text or entity, and another order, come from the alert index. The
    index has the alerts of the last days (`alert_days`) and is about a second behind. For a text, an entity or a
    verdict of very many alerts, a page examines at most 50,000 alerts, and `next` continues the search.
    """
    search = query.search(now_ms())
    if not search.needs_index:
        return _live_page(plane, query, search)
    if query.key:
        raise WebError(422, "key cannot be combined with these filters: use text")
    found, following = plane.searches.page(search, plane.snoozing(), position_of(query.before), query.limit)
    items = [(each.alert, each.correction) for each in found]
    was_cut = following is not None and len(found) < query.limit and search.sort is AlertSort.NEWEST
    searched_to = following[0] if following is not None and was_cut else None
    return _page(plane, items, {"next": _position_text(following), "searchedTo": searched_to, "missing": None})


def _live_page(plane: ControlPlane, query: ListQuery, search: AlertSearch) -> Response:
    page = plane.alerts.page(search, position_of(query.before), query.limit, query.key)
    missing = f"retention has deleted older alerts from {' and '.join(page.lost)}" if page.lost else None
    rest = {"next": _position_text(page.next), "searchedTo": page.searched_to_ms, "missing": missing}
    return _page(plane, [(each, None) for each in page.alerts], rest)


def _page(
    plane: ControlPlane,
    found: Sequence[tuple[FeedAlert, tuple[str, int] | None]],
    rest: Mapping[str, object],
) -> Response:
    """Encode alerts with their corrections, marks and snoozes, and the continuation of the list."""
    with plane.store.reading() as work:
        marks = alert_marks.marks(work.session, [alert.facts.alert_id for alert, _ in found])
    encoder, snoozing = AlertEncoder(plane.memory), plane.snoozing()
    items = b",".join(
        encoder.encode(alert.with_snooze(snoozing), marks.get(alert.facts.alert_id), correction)
        for alert, correction in found
    )
    return json_answer(b'{"items":[%b],%b' % (items, msgspec.json.encode(rest)[1:]))


def _position_text(position: tuple[int, int, int] | None) -> str | None:
    return None if position is None else encode_position(position)


@routes.get(
    "/alerts/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    openapi_extra=least("viewer"),
)
async def stream(
    request: Request,
    plane: CurrentPlane,
    user: CurrentUser,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=200)] = None,
) -> Response:
    """Stream events: `begin` (the place where the stream begins), `alert` (Alert), `alerts` (AlertBatch), `correction`
    (CorrectionEvent), `operation` (Activation), `rules` (RuleChanged), `gap` (Gap). With `Last-Event-ID`, the stream
    resumes after that event. A silent stream has a comment every three seconds."""
    since = FeedPlace.of(last_event_id) if last_event_id else None
    seat = await reserve_seat(plane.hub, request.app.state.throttle, user[0], plane.settings.rates.streams)
    try:
        # The records that a server reads when it starts are not new events.
        await _await_caught_up(plane.feed)
        await asyncio.sleep(_POLL_INTERVAL_S)  # the last events are on their way to the hub
        events = plane.hub.read(since, _STREAM_S)
        masks = plane.masking.hides_from(user[1])
        return _EventStream(seat, masked_events(plane.masking.shown, events) if masks else events)
    except BaseException:
        seat.release()
        raise


@routes.get(
    "/alerts/{alert_id}/evidence",
    response_model=read_models.Evidence,
    openapi_extra=least("viewer", LaneName.EVIDENCE),
)
def get_evidence(plane: CurrentPlane, alert_id: AlertId, position: Position = None) -> Response:
    """Read the transactions of an alert's window from the broker. `position` locates an alert that is not in memory."""
    return json_answer(plane.evidence.read(_alert(plane, alert_id, position).json))


@routes.get(
    "/alerts/{alert_id}/proof",
    response_class=Response,
    responses=ZIP_ANSWER,
    openapi_extra=least("analyst", LaneName.EVIDENCE),
)
def download_proof(
    plane: CurrentPlane, alert_id: AlertId, position: Position = None, *, retraction: bool = False
) -> Response:
    """Download the proof of an alert, or of its `retraction`, with the rows of the audit log about its rule.
    Its records have whole ids. `fraud verify` checks it, see docs/proof.md. `position` locates an alert that is neither
    in memory nor in the alert index.
    """
    alert = _alert(plane, alert_id, position)
    return zip_answer(plane.proofs.prove(alert, retraction=retraction), f"{alert_id.lower()}.proof.zip")


@routes.put("/alerts/{alert_id}/mark", response_model=read_models.Mark, openapi_extra=least("analyst"))
def mark_alert(
    plane: CurrentPlane,
    who: CurrentActor,
    alert_id: AlertId,
    body: schemas.MarkRequest,
    position: Position = None,
) -> Response:
    """Mark an alert as fraud or not fraud. `position` locates an alert that is not in memory."""
    facts = _alert(plane, alert_id, position).facts
    with plane.store.change(who) as work:
        mark = alert_marks.mark(work, who, facts.alert_id, facts.rule_id, facts.rule_version, body.verdict)
    plane.forget_quality()
    return answer(mark)


@routes.delete("/alerts/{alert_id}/mark", status_code=204, openapi_extra=least("analyst"))
def unmark_alert(plane: CurrentPlane, who: CurrentActor, alert_id: AlertId) -> Response:
    """Remove the mark of an alert."""
    with plane.store.change(who) as work:
        alert_marks.unmark(work, who, alert_id.lower())
    plane.forget_quality()
    return nothing()


@routes.get("/snoozes", response_model=schemas.Snoozes, openapi_extra=least("viewer"))
def list_snoozes(plane: CurrentPlane) -> Response:
    """List the snoozes in force."""
    with plane.store.reading() as work:
        found = alert_marks.snoozes(work.session, work.now_ms)
    return answer(schemas.Snoozes(items=list(found)))


@routes.post("/snoozes", status_code=201, response_model=read_models.Snooze, openapi_extra=least("analyst"))
def snooze(plane: CurrentPlane, who: CurrentActor, body: schemas.SnoozeRequest) -> Response:
    """Hide alerts of a rule, or of one key of it, from the list until a time."""
    with plane.store.change(who, body.reason, "reason") as work:
        made = alert_marks.snooze(work, who, body.rule_id, body.key, body.until, body.reason)
    plane.snoozing.forget()
    return answer(made, 201)


@routes.delete("/snoozes/{snooze_id}", status_code=204, openapi_extra=least("analyst"))
def end_snooze(plane: CurrentPlane, who: CurrentActor, snooze_id: Annotated[int, Path(ge=1, le=MAX_ID)]) -> Response:
    """End a snooze now."""
    with plane.store.change(who) as work:
        alert_marks.unsnooze(work, who, snooze_id)
    plane.snoozing.forget()
    return nothing()


@routes.get("/quality", response_model=schemas.QualityTable, openapi_extra=least("viewer"))
def quality(plane: CurrentPlane) -> Response:
    """Read how often rules fire, over the alerts in memory, and their quality by labels: of each rule, and of the rules
    that alert for the same payments, over 90 days.
    """
    flooding = plane.guard.flooding
    items = [_quality(each, flooding=each.rule_id in flooding) for each in plane.fire_stats()]
    return answer(schemas.QualityTable(items=items, labels=plane.quality()))


async def _await_caught_up(feed: FeedReader) -> None:
    """Wait, without a thread, until the feed has read its initial records. Raises WebError if that takes too long."""
    try:
        async with asyncio.timeout(_CAUGHT_UP_S):
            while not feed.caught_up:  # noqa: ASYNC110 -- the feed is a thread, which has no event loop
                await asyncio.sleep(_POLL_INTERVAL_S)
    except TimeoutError:
        raise WebError(503, "the server is still reading the latest alerts; try again later") from None


def _alert(plane: ControlPlane, alert_id: str, position: str | None) -> FeedAlert:
    found = plane.alerts.alert(alert_id.lower(), position_of(position)) or plane.searches.alert(alert_id.lower())
    if found is None:
        raise NotFound("this alert is neither in memory nor in the alert index: send the position of an older alert")
    return found


def _quality(fired: RuleFireStats, *, flooding: bool) -> schemas.QualityRow:
    return schemas.QualityRow(
        rule_id=fired.rule_id,
        alerts=fired.alerts,
        per_hour=fired.per_hour,
        since=fired.since_ms,
        overlap=[schemas.Overlap(rule_id=other, share=share) for other, share in fired.overlap],
        flooding=flooding,
    )
