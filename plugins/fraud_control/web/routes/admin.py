"""Routes of administration: the user, the transaction schema, role bindings and drift."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import Annotated

from fastapi import Path, Request, Response

from fraud_control.domain import read_models
from fraud_control.domain.item import LIST, MAP, RULE
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import granted
from fraud_control.service import bindings
from fraud_control.web.answer import answer, json_answer, nothing
from fraud_control.web.auth import CurrentActor, CurrentUser
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.extensions import active_extensions
from fraud_control.web.openapi import text
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import admin as schemas
from fraud_rules.codec.rules.members import MEMBERS
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.expressions.functions import FUNCTIONS
from fraud_rules.model.rule import Operator, RuleAction
from fraud_rules.model.schema import DeclaredEntity, Field, FieldType, TransactionSchema
from fraud_rules.runtime.clock import now_ms

routes = router("administration")

UserName = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f/]+$")]


@routes.get("/openapi.json", include_in_schema=False, openapi_extra=least(None))
def openapi(request: Request) -> Response:
    """Read this API description."""

    return json_answer(text(request.app).encode())


@routes.get("/me", response_model=schemas.Me, openapi_extra=least(None))
def me(plane: CurrentPlane, user: CurrentUser) -> Response:
    """Read the user and the user's permissions."""
    name, role = user
    demo = "demo" in active_extensions()
    return answer(
        schemas.Me(
            user=name,
            role=role,
            roles=[] if role is None else list(role.included),
            four_eyes=plane.settings.four_eyes,
            demo=demo,
            can=list(granted(role)),
        )
    )


@routes.get("/schema", response_model=schemas.SchemaShown, openapi_extra=least("viewer"))
def schema(plane: CurrentPlane) -> Response:
    """Read the fields, entities, functions, aggregators, operators and limits for rules."""
    return answer(
        schemas.SchemaShown(
            fields=[_field(each) for each in plane.schema.fields],
            entities=[_entity(each, plane.schema) for each in plane.schema.entities],
            functions=[schemas.FunctionShown(name=name, parameters=each.signature) for name, each in FUNCTIONS.items()],
            aggregators=[each.value for each in AggregateFunction],
            operators=[each.value for each in Operator],
            actions=[each.value for each in RuleAction],
            states=[each.value for each in StateName],
            members=list(MEMBERS),
            limits={_camel(name): value for name, value in asdict(plane.detector.limits).items()},
        )
    )


@routes.get("/drift", response_model=schemas.Drift, openapi_extra=least("viewer"))
def drift(plane: CurrentPlane) -> Response:
    """Compare the store with the rule log."""
    found = plane.drift.read()
    oldest_ms = found.oldest_pending_ms
    by_kind: dict[str, list[dict[str, object]]] = defaultdict(list)
    for each in found.differences:
        item, sides = each.item, {"store": each.store, "log": each.log}
        by_kind[item.kind].append(
            {"rule_id": item.rule_id, "list_name": item.list_name, "map_name": item.map_name, **sides}
        )
    members = {
        "in_step": found.in_sync,
        "settled": found.settled,
        "log_end": found.log_end,
        "store_position": found.store_position,
        "differences": by_kind[RULE],
        "list_differences": by_kind[LIST],
        "map_differences": by_kind[MAP],
        "outbox_pending": found.pending,
        "oldest_pending_ms": None if oldest_ms is None else max(0, now_ms() - oldest_ms),
        "behind": found.behind,
        "behind_since": found.behind_since_ms,
    }
    return answer(schemas.Drift.model_validate(members))


@routes.get("/bindings", response_model=schemas.Bindings, openapi_extra=least("admin"))
def list_bindings(plane: CurrentPlane) -> Response:
    """List the users with a role."""
    with plane.store.reading() as work:
        found = bindings.bindings(work.session, work.settings)
    return answer(schemas.Bindings(items=list(found)))


@routes.put("/bindings/{user}", response_model=read_models.Binding, openapi_extra=least("admin"))
def bind(plane: CurrentPlane, who: CurrentActor, user: UserName, body: schemas.BindingRequest) -> Response:
    """Give a user a role."""
    with plane.store.change(who) as work:
        bound = bindings.bind(work, who, user, body.role)
    plane.roles.forget()
    return answer(bound)


@routes.delete("/bindings/{user}", status_code=204, openapi_extra=least("admin"))
def unbind(plane: CurrentPlane, who: CurrentActor, user: UserName) -> Response:
    """Remove a user's role."""
    with plane.store.change(who) as work:
        bindings.unbind(work, who, user)
    plane.roles.forget()
    return nothing()


def _field(field: Field) -> schemas.FieldShown:
    display = field.display
    return schemas.FieldShown(
        name=field.name,
        type=field.type.value,
        nullable=field.nullable,
        aliases=list(field.aliases),
        label=display.label,
        description=display.description,
        unit=display.unit,
        values=list(display.values),
        measure=field.is_measure,
        scale=field.scale if field.type is FieldType.DECIMAL else None,
        minimum=display.minimum,
    )


def _entity(entity: DeclaredEntity, schema: TransactionSchema) -> schemas.EntityShown:
    value = schema.of_rows((entity.name,)).field(entity.name)
    return schemas.EntityShown(
        name=entity.name,
        type="" if value is None else value.type.value,
        roles=[schemas.RoleShown(name=role, field=field) for role, field in entity.roles],
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.title, rest))
