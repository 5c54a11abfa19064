"""The part of the service about lists of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fraud_ops.control_plane.domain.list_input import check_size, list_change
from fraud_ops.control_plane.domain.list_models import (
    ListDiff,
    ListedValue,
    ListImportResult,
    ListInput,
    ListRevision,
    StoredList,
)
from fraud_ops.control_plane.domain.read_models import Page
from fraud_ops.control_plane.domain.roles import Actor, Permission, require
from fraud_ops.control_plane.domain.rule_input import SOURCE
from fraud_ops.control_plane.service.ids import check_page, storable_bound, storable_id
from fraud_ops.control_plane.service.lists import imports, queries, transitions
from fraud_ops.control_plane.service.lists.changes import head_of_list
from fraud_ops.control_plane.service.lists.uses import uses_of
from fraud_ops.control_plane.service.store_access import StoreAccess, UserChanges
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.value_list import ListOperation, ListType, ListValue

__all__ = ["ListService"]


class ListService:
    """Reads and changes lists of values. All threads of a process may use it.

    Every method raises Unavailable if the database cannot be reached.
    """

    def __init__(self, store: StoreAccess, changes: UserChanges) -> None:
        self._store = store
        self._changes = changes

    def lists(self) -> tuple[StoredList, ...]:
        """The lists that are not deleted, by name."""
        with self._store.database.reading() as session:
            return queries.rows(session, self._store.reader)

    def list(self, name: str) -> StoredList:
        """Read a list. Raises NotFound."""
        with self._store.database.reading() as session:
            return queries.detail(session, self._store.reader, name)

    def values(self, name: str, *, query: str = "", limit: int = 200, cursor: str | None = None) -> Page[ListedValue]:
        """List the values of a list that contain a text, in order. Raises NotFound, Invalid."""
        check_page(limit, self._store.settings.bounds.page, query)
        with self._store.database.reading() as session:
            contents = self._store.contents
            return queries.values(session, contents, name, query=query.strip(), limit=limit, after=cursor)

    def containing(self, value: ListValue) -> Sequence[str]:
        """The names of the lists that contain a value, in order."""
        with self._store.database.reading() as session:
            return queries.containing(session, self._store.contents, value)

    def revisions(self, name: str, *, limit: int = 200, before: int | None = None) -> Page[ListRevision]:
        """List the changes of a list below revision `before`, newest first. Raises NotFound."""
        check_page(limit, self._store.settings.bounds.page)
        with self._store.database.reading() as session:
            return queries.revisions(session, name, limit=limit, before=storable_bound(before))

    def diff(self, name: str, before: int, after: int) -> ListDiff:
        """Compare the values after two revisions. Revision 0 stands for no values. Raises NotFound."""
        with self._store.database.reading() as session:
            return queries.diff(session, self._store.contents, name, storable_id(before), storable_id(after))

    def export(self, name: str) -> str:
        """The values of a list in order, one per line. Raises NotFound."""
        with self._store.database.reading() as session:
            return queries.export(session, self._store.contents, name)

    def export_all(self, form: RuleFormat) -> str:
        """All lists by name, as the text of a file. Raises Invalid for a value that the text form cannot express."""
        with self._store.database.reading() as session:
            return queries.export_all(session, self._store.contents, form)

    def preview(self, name: str, list_input: ListInput) -> ListDiff:
        """The values that a change would add and remove. Raises NotFound, and Invalid for invalid values."""
        check_size(list_input, self._store.settings.bounds.list_bytes)
        with self._store.database.reading() as session:
            value_type = ListType(head_of_list(session, name).type)
            known = self._store.contents.current(session, name)
            before = [] if known is None else known.values()
        change = list_change(name, list_input, value_type, SOURCE, self._store.reader.limits)
        given = change.values()
        after = {
            ListOperation.SET: set(given),
            ListOperation.ADD: {*before, *given},
            ListOperation.REMOVE: {*before}.difference(given),
            ListOperation.DELETE: set(),
        }[change.operation]
        return queries.difference(before, sorted(after))

    def create(self, actor: Actor, name: str, list_input: ListInput, comment: str = "") -> StoredList:
        """Create a list with its values. Raises RequestRefused, Invalid, and Conflict if the list exists.

        Values are parsed before the writer's transaction, so that other changes do not wait for this work.
        """
        require(actor, Permission.DRAFT)
        check_size(list_input, self._store.settings.bounds.list_bytes)
        made = list_change(name, list_input, list_input.type, SOURCE, self._store.reader.limits)
        with self._changes.unit_of_work(actor, comment) as work:
            transitions.create(work, actor, made, list_input.expires_at_ms, comment.strip())
        return self.list(name)

    def change(
        self, actor: Actor, name: str, revision: int | None, list_input: ListInput, comment: str = ""
    ) -> StoredList | None:
        """Change the values of a list, or request the change (`pending`). Returns None for a deleted list.

        Raises NotFound, Conflict, RequestRefused, Invalid.
        """
        require(actor, Permission.DRAFT)
        check_size(list_input, self._store.settings.bounds.list_bytes)
        with self._store.database.reading() as session:
            value_type = ListType(head_of_list(session, name).type)
            uses_of(session, self._store.reader, name)  # parses new rules before other changes wait
        wanted = list_change(name, list_input, value_type, SOURCE, self._store.reader.limits)
        with self._changes.unit_of_work(actor, comment) as work:
            head = transitions.change(work, actor, wanted, revision, list_input.expires_at_ms, comment.strip())
        return None if head.deleted else self.list(name)

    def import_lists(
        self,
        actor: Actor,
        content: str,
        form: RuleFormat | None = None,
        revisions: Mapping[str, int] | None = None,
        comment: str = "",
        *,
        dry_run: bool = False,
    ) -> ListImportResult:
        """Import a file of lists, all of it or nothing (form None: detect the form from the content).

        Each list gets exactly the values of the file; lists that the file does not name stay as they are. A list whose
        revision is not the one in `revisions` is rejected. `dry_run` returns the effects and saves nothing. Raises
        RequestRefused, and Invalid for content that is unreadable or too large.

        Lists are parsed and compared before the writer's transaction, so that other changes do not wait for this work.
        """
        self._changes.check(actor, comment)
        lists = imports.read_import(actor, content, form, self._store.settings.bounds, self._store.reader.limits)
        read, note = revisions or {}, comment.strip()
        with self._store.database.reading() as session:
            reads = self._store.work_of(session)
            foreseen = imports.import_lists(reads, actor, lists, read, note, saves=False)
        if dry_run or not foreseen.applied:
            return ListImportResult(items=foreseen.items, applied=False)
        with self._changes.unit_of_work(actor, comment) as work:
            done = imports.import_lists(work, actor, lists, read, note, saves=True)
            if not done.applied:
                work.roll_back_all()
            return done
