"""Roles below the analyst, and all notifications, see the last four characters of fields with `display: masked`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import Match

from fraud_control.domain.masking import Masking
from fraud_control.domain.roles import Role
from fraud_control.web.answer import json_answer
from fraud_control.web.load.lanes import Lanes
from fraud_control.web.problems import WebError
from fraud_control.web.routes import collections
from fraud_control.web.routing import least, router
from fraud_control.web.stream import masked_events
from fraud_rules.model.schema import TransactionSchema

FIELDS: list[dict[str, Any]] = [
    {"name": "transactionId", "type": "long"},
    {"name": "eventTime", "type": "timestamp"},
    {"name": "payeeId", "type": "long", "display": "masked"},
    {"name": "beneficiaryId", "type": "long"},
    {"name": "amount", "type": "decimal", "precision": 18, "scale": 2},
]
SCHEMA = TransactionSchema.parse(
    {"fields": FIELDS, "entities": [{"name": "account", "roles": {"out": "payeeId", "in": "beneficiaryId"}}]}
)
MASKING = Masking(SCHEMA)


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ({"payeeId": 123456789, "beneficiaryId": 5}, {"payeeId": "••••6789", "beneficiaryId": 5}),
        ({"key": {"account": "DE12345"}}, {"key": {"account": "••••2345"}}),
        ({"payeeId": 4711}, {"payeeId": "••••"}),
        ({"payeeId": f"id:{'5e' * 16}"}, {"payeeId": f"id:{'5e' * 16}"}),
        ({"payeeId": None}, {"payeeId": None}),
        ({"entityField": "payeeId", "entityValue": "987654"}, {"entityField": "payeeId", "entityValue": "••••7654"}),
        ({"entityField": "paymentType", "entityValue": "cash"}, {"entityField": "paymentType", "entityValue": "cash"}),
        (
            {"field": "payeeId", "values": [{"value": "98765", "alerts": 3}]},
            {"field": "payeeId", "values": [{"value": "••••8765", "alerts": 3}]},
        ),
        ({"account": {"value": 98765, "payeeId": 4711}}, {"account": {"value": "••••8765", "payeeId": "••••"}}),
        ([{"field": "payeeId", "value": 98765, "n": 12345}], [{"field": "payeeId", "value": "••••8765", "n": 12345}]),
    ],
)  # fmt: skip
def test_masked_documents(document: Any, shown: Any) -> None:
    assert MASKING.document(document) == shown
    assert MASKING.of(Role.ANALYST)(document) == document
    assert MASKING.of(Role.VIEWER)(document) == shown


def test_changes_of_lists_and_maps_have_no_values_for_roles_that_see_masked_values() -> None:
    requested = [
        {"document": {"listName": "mules", "listOperation": "ADD", "values": ["4711"], "count": 1}},
        {"document": {"mapName": "limits", "entries": {"4711": 5}, "keys": ["4711"]}},
        {"field": "paymentType", "values": [{"value": "CSH"}]},
    ]
    assert MASKING.of(Role.AUDITOR)(requested) == [
        {"document": {"listName": "mules", "listOperation": "ADD", "values": [], "count": 1}},
        {"document": {"mapName": "limits", "entries": {}, "keys": []}},
        {"field": "paymentType", "values": [{"value": "CSH"}]},
    ]
    assert MASKING.of(Role.ANALYST)(requested) == requested


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("/lists/mules/values", True),
        ("/maps/limits/entries", True),
        ("/lists/mules/export", True),
        ("/maps/limits/export", True),
        ("/lists/mules/diff?from=0&to=1", True),
        ("/maps/limits/diff?from=0&to=1", True),
        ("/export/lists", True),
        ("/export/maps", True),
        ("/lists/mules", False),
        ("/lists/mules/versions", False),
        ("/lists", False),
    ],
)
def test_the_routes_with_values_of_lists_and_maps_need_whole_ids(path: str, whole: bool) -> None:
    route = next(each for each in collections.routes.routes if each.matches(_scope(path))[0] is Match.FULL)
    assert isinstance(route, APIRoute)
    assert [each.call for each in route.dependant.dependencies if each.call is _refusal()] == [_refusal()] * whole


@pytest.mark.parametrize(("role", "refused"), [(Role.VIEWER, True), (Role.AUDITOR, True), (Role.ANALYST, False)])
def test_a_role_that_sees_masked_values_reads_no_values(role: Role, refused: bool) -> None:
    with pytest.raises(WebError, match="need the role analyst") if refused else nullcontext():
        asyncio.run(_refusal()(SimpleNamespace(masking=MASKING), ("vera", role)))


def _refusal() -> Any:
    return collections._reads_values


def _scope(path: str) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": f"/api{path.partition('?')[0]}", "root_path": "", "headers": []}


@pytest.mark.parametrize("role", Role)
def test_the_roles_that_see_whole_values(role: Role) -> None:
    assert MASKING.hides_from(role) is (role in (Role.VIEWER, Role.AUDITOR))
    assert not Masking(TransactionSchema(SCHEMA.fields[3:])).hides_from(role), "without masked fields"


ROUTES = router("tests")


@ROUTES.get("/payment", openapi_extra=least("viewer"))
def payment() -> Response:
    """A payment."""
    return json_answer(b'{"payeeId":123456789,"amount":12.50}')


@pytest.mark.parametrize(
    ("role", "answer"),
    [
        (Role.VIEWER, b'{"payeeId":"\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa26789","amount":12.50}'),
        (Role.ANALYST, b'{"payeeId":123456789,"amount":12.50}'),
    ],
)
def test_each_route_masks_its_answer(monkeypatch: pytest.MonkeyPatch, role: Role, answer: bytes) -> None:
    async def admit(request: Request, least: Role | None) -> None:
        request.state.fraud_user, request.state.fraud_role = "ann", role

    monkeypatch.setattr("fraud_control.web.routing.admit", admit)
    app = FastAPI()
    app.state.service = lambda: SimpleNamespace(masking=MASKING)
    app.state.lanes = Lanes()
    app.include_router(ROUTES)
    found = TestClient(app).get("/api/payment")
    app.state.lanes.close()
    assert (found.content, int(found.headers["content-length"])) == (answer, len(answer))


def test_the_event_stream_masks_the_json_of_its_events() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b'event: alert\nid: 1\ndata: {"key":{"payeeId":123456789}}\n\n: ping\n\n'

    async def read() -> bytes:
        return b"".join([each async for each in masked_events(MASKING.document, events())])

    assert asyncio.run(read()).decode() == 'event: alert\nid: 1\ndata: {"key":{"payeeId":"••••6789"}}\n\n: ping\n\n'
