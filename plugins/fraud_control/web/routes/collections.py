"""Routes of lists of values and of maps. The path of a route names the kind, so that one function serves both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request, Response

from fraud_control.domain import collection_models
from fraud_control.domain.collection_input import input_of_lines
from fraud_control.domain.collection_models import CollectionInput, StoredCollection
from fraud_control.domain.item import ItemName
from fraud_control.domain.roles import LEAST_ROLE, Actor, Permission
from fraud_control.service.collections import imports, queries, transitions
from fraud_control.service.collections.transitions import parse_change, parse_new
from fraud_control.web import rows
from fraud_control.web.answer import answer, file_of, nothing
from fraud_control.web.auth import CurrentActor, CurrentUser
from fraud_control.web.dependencies import CurrentPlane, IfMatch, revision_read
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.problems import WebError
from fraud_control.web.routing import Before, DryRun, FileForm, Limit, change_of, file_of_items, least, router
from fraud_control.web.schemas import collections as schemas
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.collection_history import CollectionType
from fraud_rules.model.value_list import CollectionKind, ListOperation
from fraud_rules.model.value_map import MapType

routes = router("lists and maps")

_ROWS: Final[Mapping[CollectionKind, type[schemas.ListRow | schemas.MapRow]]] = {
    CollectionKind.LIST: schemas.ListRow,
    CollectionKind.MAP: schemas.MapRow,
}
_PAGES: Final[Mapping[CollectionKind, type[schemas.ListValues | schemas.MapEntries]]] = {
    CollectionKind.LIST: schemas.ListValues,
    CollectionKind.MAP: schemas.MapEntries,
}
_ALL: Final[Mapping[CollectionKind, type[schemas.Lists | schemas.Maps]]] = {
    CollectionKind.LIST: schemas.Lists,
    CollectionKind.MAP: schemas.Maps,
}
_DIFF: Final[Any] = {
    "response_model": collection_models.CollectionDiff,
    "openapi_extra": least("analyst", LaneName.FILES),
}
_IMPORT: Final[Any] = {
    "response_model": collection_models.CollectionImportResult,
    "openapi_extra": least("analyst", LaneName.FILES),
}


async def _kind_of_path(request: Request) -> CollectionKind:
    is_map = "maps" in request.scope["route"].path.split("/")
    return CollectionKind.MAP if is_map else CollectionKind.LIST


async def _reads_values(plane: CurrentPlane, user: CurrentUser) -> None:
    """Refuse the values to roles that see masked values: they belong to no field, and many are ids of people."""
    if plane.masking.hides_from(user[1]):
        raise WebError(403, f"values can be ids of people: they need the role {LEAST_ROLE[Permission.READ_IDS]}")


_VALUES: Final = [Depends(_reads_values)]
"""The dependencies of a route that reads values."""

Kind = Annotated[CollectionKind, Depends(_kind_of_path)]
Name = Annotated[str, Path(max_length=63)]
Revision = Annotated[int, Query(ge=0, le=2**53)]


@routes.get("/lists", name="list_lists", response_model=schemas.Lists, openapi_extra=least("viewer"))
@routes.get("/maps", name="list_maps", response_model=schemas.Maps, openapi_extra=least("viewer"))
def list_all(plane: CurrentPlane, kind: Kind) -> Response:
    """List the lists or maps by name, with the rules that use them."""
    with plane.store.reading() as work:
        found = queries.rows(work, kind.value)
    return answer(_ALL[kind].model_validate({"items": [_row(plane, kind, each) for each in found]}))


@routes.post("/lists", status_code=201, response_model=schemas.ListRow, openapi_extra=least("analyst"))
def create_list(plane: CurrentPlane, actor: CurrentActor, body: schemas.CreateListRequest) -> Response:
    """Create a list with its values."""
    return _created(plane, actor, ItemName.of_list(body.name), body, body.type)


@routes.post("/maps", status_code=201, response_model=schemas.MapRow, openapi_extra=least("analyst"))
def create_map(plane: CurrentPlane, actor: CurrentActor, body: schemas.CreateMapRequest) -> Response:
    """Create a map with its entries."""
    return _created(plane, actor, ItemName.of_map(body.name), body, MapType(body.key_type, body.value_type))


@routes.get("/export/lists", name="export_lists", dependencies=_VALUES, **file_of_items())
@routes.get("/export/maps", name="export_maps", dependencies=_VALUES, **file_of_items())
def export_all(plane: CurrentPlane, kind: Kind, form: FileForm = "yaml") -> Response:
    """Export all lists or maps, as a file for their import."""
    with plane.store.reading() as work:
        return file_of(queries.export_all(work, kind.value, RuleFormat(form)), f"{kind}s", RuleFormat(form))


@routes.post("/import/lists", name="import_lists", **_IMPORT)
@routes.post("/import/maps", name="import_maps", **_IMPORT)
def import_file(
    plane: CurrentPlane,
    actor: CurrentActor,
    kind: Kind,
    body: schemas.CollectionImportRequest,
    *,
    dry_run: DryRun = True,
) -> Response:
    """Import a file of lists or maps, all of it or nothing. Each gets exactly its content in the file."""
    form = None if body.format is None else RuleFormat(body.format)
    return answer(
        imports.import_collections(
            kind, plane.store, actor, body.content, form, body.revisions, body.comment, dry_run=dry_run
        )
    )


@routes.get("/lists/{name}", name="get_list", response_model=schemas.ListRow, openapi_extra=least("viewer"))
@routes.get("/maps/{name}", name="get_map", response_model=schemas.MapRow, openapi_extra=least("viewer"))
def get_one(plane: CurrentPlane, kind: Kind, name: Name) -> Response:
    """Read a list or map, with its revision as the ETag."""
    item = ItemName.of_collection((kind, name))
    with plane.store.reading() as work:
        return _detail(plane, item, queries.detail(work, item))


@routes.get(
    "/lists/{name}/values",
    name="list_values",
    dependencies=_VALUES,
    response_model=schemas.ListValues,
    openapi_extra=least("viewer"),
)
@routes.get(
    "/maps/{name}/entries",
    name="list_entries",
    dependencies=_VALUES,
    response_model=schemas.MapEntries,
    openapi_extra=least("viewer"),
)
def list_content(
    plane: CurrentPlane,
    kind: Kind,
    name: Name,
    q: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    """List the values, or the entries of a map, whose value or key contains the text `q`, in order."""
    item = ItemName.of_collection((kind, name))
    with plane.store.reading() as work:
        page = queries.values(work, item, query=q, limit=limit, cursor=cursor)
    return answer(_PAGES[kind].model_validate({"items": list(page.items), "next": page.next}))


@routes.get("/lists/{name}/export", name="export_list", dependencies=_VALUES, **file_of_items("text/plain"))
@routes.get("/maps/{name}/export", name="export_map", dependencies=_VALUES, **file_of_items("text/plain"))
def export_one(plane: CurrentPlane, kind: Kind, name: Name) -> Response:
    """Export the values, one per line, or the entries of a map as CSV, as a file for a change."""
    with plane.store.reading() as work:
        content = queries.export(work, ItemName.of_collection((kind, name)))
    suffix = "csv" if kind is CollectionKind.MAP else "txt"
    headers = {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}  # an item has this name: it is safe
    return Response(content, 200, headers, "text/plain; charset=utf-8")


@routes.post("/lists/{name}/preview", name="preview_list_change", **_DIFF)
@routes.post("/maps/{name}/preview", name="preview_map_change", **_DIFF)
def preview_change(plane: CurrentPlane, kind: Kind, name: Name, body: schemas.CollectionPreviewRequest) -> Response:
    """Show the values or entries that a change would add and remove. This saves nothing."""
    given = _input(kind, body.operation, body)
    return answer(queries.preview(plane.store, ItemName.of_collection((kind, name)), given))


@routes.post(
    "/lists/{name}/changes",
    name="change_list",
    **change_of(schemas.ListRow, {204: {"description": "The list is deleted."}}),
)
@routes.post(
    "/maps/{name}/changes",
    name="change_map",
    **change_of(schemas.MapRow, {204: {"description": "The map is deleted."}}),
)
def change_one(
    plane: CurrentPlane,
    actor: CurrentActor,
    kind: Kind,
    name: Name,
    body: schemas.CollectionChangeRequest,
    if_match: IfMatch = None,
) -> Response:
    """Change a list or map, or delete it (204), or request the change if it needs approval (202).

    SET and DELETE need If-Match.
    """
    item = ItemName.of_collection((kind, name))
    whole = body.operation in (ListOperation.SET, ListOperation.DELETE)
    revision = revision_read(if_match) if whole or if_match is not None else None
    given = _input(kind, body.operation, body, expires_at_ms=body.expires_at)
    parsed = parse_change(plane.store, actor, item, given)
    with plane.store.change(actor, body.comment) as work:
        if transitions.change(work, actor, parsed, revision, body.comment).deleted:
            return nothing()
        changed = queries.detail(work, item)
    return _detail(plane, item, changed, 200 if changed.pending is None else 202)


@routes.get(
    "/lists/{name}/versions",
    name="list_list_versions",
    response_model=schemas.CollectionVersions,
    openapi_extra=least("viewer"),
)
@routes.get(
    "/maps/{name}/versions",
    name="list_map_versions",
    response_model=schemas.CollectionVersions,
    openapi_extra=least("viewer"),
)
def list_versions(plane: CurrentPlane, kind: Kind, name: Name, before: Before = None, limit: Limit = 100) -> Response:
    """List the changes of a list or map, newest first."""
    item = ItemName.of_collection((kind, name))
    with plane.store.reading() as work:
        page = queries.revisions(work, item, limit=limit, before=before)
    items = [
        schemas.CollectionVersion(**vars(each), activation=rows.activation(plane, each.log_version, item))
        for each in page.items
    ]
    return answer(schemas.CollectionVersions(items=items, next=page.next))


@routes.get(
    "/lists/{name}/diff",
    name="diff_list_versions",
    dependencies=_VALUES,
    response_model=collection_models.CollectionDiff,
    openapi_extra=least("viewer"),
)
@routes.get(
    "/maps/{name}/diff",
    name="diff_map_versions",
    dependencies=_VALUES,
    response_model=collection_models.CollectionDiff,
    openapi_extra=least("viewer"),
)
def diff_versions(
    plane: CurrentPlane,
    kind: Kind,
    name: Name,
    since: Annotated[Revision, Query(alias="from")],
    until: Annotated[Revision, Query(alias="to")],
) -> Response:
    """Compare the content after two revisions. Revision 0 stands for none."""
    with plane.store.reading() as work:
        return answer(queries.diff(work, ItemName.of_collection((kind, name)), since, until))


def _created(
    plane: CurrentPlane,
    actor: Actor,
    item: ItemName,
    body: schemas.CreateListRequest | schemas.CreateMapRequest,
    of_type: CollectionType,
) -> Response:
    given = _input(item.collection_kind, ListOperation.SET, body, of_type, body.expires_at)
    made = parse_new(plane.store, actor, item, given)
    with plane.store.change(actor, body.comment) as work:
        transitions.create(work, actor, made, body.comment)
        created = queries.detail(work, item)
    return _detail(plane, item, created, 201)


def _row(plane: CurrentPlane, kind: CollectionKind, found: StoredCollection) -> schemas.ListRow | schemas.MapRow:
    activation = rows.activation(plane, found.log_version, ItemName.of_collection((kind, found.name)))
    return _ROWS[kind](**vars(found), activation=activation, pending_approval=found.pending)


def _detail(plane: CurrentPlane, item: ItemName, found: StoredCollection, status: int = 200) -> Response:
    return answer(_row(plane, item.collection_kind, found), status, {"ETag": f'"{found.revision}"'})


def _input(
    kind: CollectionKind,
    operation: ListOperation,
    body: schemas.ContentRequest,
    of_type: CollectionType | None = None,
    expires_at_ms: int | None = None,
) -> CollectionInput:
    forms = {name for name in ("values", "entries", "keys", "content") if getattr(body, name) is not None}
    if operation is ListOperation.DELETE:
        if forms:
            raise WebError(422, "DELETE has no values")
        return CollectionInput(operation, expires_at_ms=expires_at_ms)
    member = "values"
    if kind is CollectionKind.MAP:
        member = "keys" if operation is ListOperation.REMOVE else "entries"
    if len(forms) != 1 or not forms <= {member, "content"}:
        raise WebError(422, f"send the {member} in one form: {member} or content")
    if body.content is not None:
        return input_of_lines(kind, operation, body.content, of_type, expires_at_ms)
    texts, entries = tuple(body.values or body.keys or ()), tuple((body.entries or {}).items())
    return CollectionInput(operation, texts, of_type, expires_at_ms, entries=entries)
