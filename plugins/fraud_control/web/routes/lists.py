"""Routes of lists of values."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from fraud_control.domain import collection_models
from fraud_control.domain.collection_input import input_of_lines
from fraud_control.domain.collection_models import CollectionInput, StoredList
from fraud_control.service.collections import imports, queries, transitions
from fraud_control.service.collections.transitions import parse_change, parse_new
from fraud_control.web import rows
from fraud_control.web.answer import answer, file_of, nothing
from fraud_control.web.auth import CurrentActor
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.preconditions import IfMatch, revision_read
from fraud_control.web.problems import WebError
from fraud_control.web.routing import Before, DryRun, FileForm, Limit, change_of, file_of_items, least, router
from fraud_control.web.schemas import lists as schemas
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.value_list import ListOperation, ListType

__all__ = ["routes"]

routes = router("lists")

Name = Annotated[str, Path(max_length=63)]
Revision = Annotated[int, Query(ge=0, le=2**53)]


@routes.get("/lists", response_model=schemas.Lists, openapi_extra=least("viewer"))
def list_lists(plane: CurrentPlane) -> Response:
    """List the lists by name, with the rules that use them."""
    with plane.store.reading() as work:
        found = queries.rows(work)
    return answer(schemas.Lists(items=[_row(plane, each) for each in found]))


@routes.post("/lists", status_code=201, response_model=schemas.ListRow, openapi_extra=least("analyst"))
def create_list(plane: CurrentPlane, actor: CurrentActor, body: schemas.CreateListRequest) -> Response:
    """Create a list with its values."""
    made = parse_new(plane.store, actor, body.name, _values_of(ListOperation.SET, body, body.type, body.expires_at))
    with plane.store.change(actor, body.comment) as work:
        transitions.create(work, actor, made, body.comment)
        created = queries.detail(work, body.name)
    return _detail(plane, created, 201)


@routes.get("/export/lists", **file_of_items())
def export_lists(plane: CurrentPlane, form: FileForm = "yaml") -> Response:
    """Export all lists, as a file for `import/lists`."""
    with plane.store.reading() as work:
        return file_of(queries.export_all(work, RuleFormat(form)), "lists", RuleFormat(form))


@routes.post(
    "/import/lists",
    response_model=collection_models.CollectionImportResult,
    openapi_extra=least("analyst", LaneName.FILES),
)
def import_lists(
    plane: CurrentPlane, actor: CurrentActor, body: schemas.ListImportRequest, *, dry_run: DryRun = True
) -> Response:
    """Import a file of lists, all of it or nothing. Each list gets exactly the values of the file."""
    form = None if body.format is None else RuleFormat(body.format)
    return answer(
        imports.import_lists(plane.store, actor, body.content, form, body.revisions, body.comment, dry_run=dry_run)
    )


@routes.get("/lists/{name}", response_model=schemas.ListRow, openapi_extra=least("viewer"))
def get_list(plane: CurrentPlane, name: Name) -> Response:
    """Read a list, with its revision as the ETag."""
    with plane.store.reading() as work:
        return _detail(plane, queries.detail(work, name))


@routes.get("/lists/{name}/values", response_model=schemas.ListValues, openapi_extra=least("viewer"))
def list_values(
    plane: CurrentPlane,
    name: Name,
    q: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    """List the values that contain the text `q`, in order."""
    with plane.store.reading() as work:
        page = queries.values(work, name, query=q, limit=limit, cursor=cursor)
    return answer(schemas.ListValues(items=list(page.items), next=page.next))


@routes.get("/lists/{name}/export", **file_of_items("text/plain"))
def export_list(plane: CurrentPlane, name: Name) -> Response:
    """Export the values, one per line, as a file for a change."""
    with plane.store.reading() as work:
        content = queries.export(work, name)
    headers = {"Content-Disposition": f'attachment; filename="{name}.txt"'}  # a list has this name, so it is safe
    return Response(content, 200, headers, "text/plain; charset=utf-8")


@routes.post(
    "/lists/{name}/preview",
    response_model=collection_models.CollectionDiff,
    openapi_extra=least("analyst", LaneName.FILES),
)
def preview_list_change(plane: CurrentPlane, name: Name, body: schemas.ListPreviewRequest) -> Response:
    """Show the values that a change would add and remove. This saves nothing."""
    return answer(queries.preview(plane.store, name, _list_input(body)))


@routes.post("/lists/{name}/changes", **change_of(schemas.ListRow, {204: {"description": "The list is deleted."}}))
def change_list(
    plane: CurrentPlane, actor: CurrentActor, name: Name, body: schemas.ListChangeRequest, if_match: IfMatch = None
) -> Response:
    """Change the values of a list, or delete it (204), or request the change if it needs approval (202).

    SET and DELETE need If-Match.
    """
    whole = body.operation in (ListOperation.SET, ListOperation.DELETE)
    revision = revision_read(if_match) if whole or if_match is not None else None
    parsed = parse_change(plane.store, actor, name, _list_input(body, body.expires_at))
    with plane.store.change(actor, body.comment) as work:
        if transitions.change(work, actor, parsed, revision, body.comment).deleted:
            return nothing()
        changed = queries.detail(work, name)
    return _detail(plane, changed, 200 if changed.pending is None else 202)


@routes.get("/lists/{name}/versions", response_model=schemas.ListVersions, openapi_extra=least("viewer"))
def list_list_versions(plane: CurrentPlane, name: Name, before: Before = None, limit: Limit = 100) -> Response:
    """List the changes of a list, newest first."""
    with plane.store.reading() as work:
        page = queries.revisions(work, name, limit=limit, before=before)
    items = [
        schemas.ListVersion(**dict(each), activation=rows.activation(plane, each.log_version, None, name))
        for each in page.items
    ]
    return answer(schemas.ListVersions(items=items, next=page.next))


@routes.get("/lists/{name}/diff", response_model=collection_models.CollectionDiff, openapi_extra=least("viewer"))
def diff_list_versions(
    plane: CurrentPlane,
    name: Name,
    since: Annotated[Revision, Query(alias="from")],
    until: Annotated[Revision, Query(alias="to")],
) -> Response:
    """Compare the values after two revisions. Revision 0 stands for no values."""
    with plane.store.reading() as work:
        return answer(queries.diff(work, name, since, until))


def _row(plane: CurrentPlane, found: StoredList) -> schemas.ListRow:
    activation = rows.activation(plane, found.log_version, None, found.name)
    return schemas.ListRow(**dict(found), activation=activation, pending_approval=found.pending)


def _detail(plane: CurrentPlane, found: StoredList, status: int = 200) -> Response:
    return answer(_row(plane, found), status, {"ETag": f'"{found.revision}"'})


def _list_input(body: schemas.ListPreviewRequest, expires_at_ms: int | None = None) -> CollectionInput:
    if body.operation is ListOperation.DELETE:
        if body.values is not None or body.content is not None:
            raise WebError(422, "DELETE has no values")
        return CollectionInput(ListOperation.DELETE, expires_at_ms=expires_at_ms)
    return _values_of(body.operation, body, None, expires_at_ms)


def _values_of(
    operation: ListOperation, body: schemas.ListValuesRequest, value_type: ListType | None, expires_at_ms: int | None
) -> CollectionInput:
    if (body.values is None) is (body.content is None):
        raise WebError(422, "send the values in one form: values or content")
    if body.content is None:
        return CollectionInput(operation, tuple(body.values or ()), value_type, expires_at_ms)
    return input_of_lines(operation, body.content, value_type, expires_at_ms)
