"""What users do in the control plane, by call: each call opens a session or a change of its own, as a route does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.case_models import BulkChange, CaseDetail, CaseSearch
from fraud_control.domain.collection_models import (
    CollectionDiff,
    CollectionImportResult,
    CollectionInput,
    CollectionRevision,
)
from fraud_control.domain.item import ItemName
from fraud_control.domain.program_token import ProgramToken
from fraud_control.domain.read_models import (
    AuditRow,
    AuditState,
    AuditVerdict,
    Binding,
    ImportResult,
    Mark,
    MarkVerdict,
    OutboxState,
    Page,
    Revision,
    RuleWithForms,
    Snooze,
)
from fraud_control.domain.roles import Actor, Role
from fraud_control.domain.snoozing import Snoozing
from fraud_control.service import alert_marks, audit, bindings, program_tokens
from fraud_control.service.alerts.saved_searches import AlertSearches
from fraud_control.service.audit import AuditFilter, AuditScan
from fraud_control.service.cases import bulk, changes, marks
from fraud_control.service.cases import queries as case_queries
from fraud_control.service.cases.overview import case_overview
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections import imports as collection_imports
from fraud_control.service.collections import queries as collection_queries
from fraud_control.service.collections import transitions as collection_transitions
from fraud_control.service.items.approvals import decide
from fraud_control.service.labels.service import LabelService
from fraud_control.service.notifications.subscriptions import SubscriptionService
from fraud_control.service.reading.approval_figures import approval_figures
from fraud_control.service.reading.quality import noisy_rules
from fraud_control.service.rules import imports, transitions
from fraud_control.service.rules import queries as rule_queries
from fraud_control.service.rules.approved_content import approved_contents
from fraud_control.service.rules.validation import validate
from fraud_control.service.search import search
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.models import ItemHead
from fraud_control.sync.outbox import outbox_state
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.value_list import CollectionKind

P = ParamSpec("P")
T = TypeVar("T")


def reading(store: StoreAccess, query: Callable[Concatenate[UnitOfWork, P], T]) -> Callable[P, T]:
    """The query in a session of its own."""

    def call(*args: P.args, **named: P.kwargs) -> T:
        with store.reading() as work:
            return query(work, *args, **named)

    return call


def changing(
    store: StoreAccess, change: Callable[Concatenate[UnitOfWork, Actor, P], T]
) -> Callable[Concatenate[Actor, P], T]:
    """The change in a transaction of its own."""
    signature = inspect.signature(change)

    def call(actor: Actor, *args: P.args, **named: P.kwargs) -> T:
        comment = signature.bind(None, actor, *args, **named).arguments.get("comment", "")
        with store.change(actor, comment) as work:
            return change(work, actor, *args, **named)

    return call


def changing_rule(
    store: StoreAccess, change: Callable[Concatenate[UnitOfWork, Actor, P], ItemHead]
) -> Callable[Concatenate[Actor, P], RuleWithForms]:
    """The change of a rule in a transaction of its own, which returns the rule."""
    signature = inspect.signature(change)

    def call(actor: Actor, *args: P.args, **named: P.kwargs) -> RuleWithForms:
        comment = signature.bind(None, actor, *args, **named).arguments.get("comment", "")
        with store.change(actor, comment) as work:
            return rule_queries.detail(work, int(change(work, actor, *args, **named).item_key))

    return call


class CaseDesk:
    """Reads and changes cases."""

    def __init__(self, store: StoreAccess) -> None:
        self.store = store
        self.page = reading(store, case_queries.case_page)
        self.detail = reading(store, case_queries.case_detail)
        self.overview = reading(store, case_overview)
        self.assignees = reading(store, case_queries.assignees)
        self.assign = self._changing(changes.assign)
        self.change_status = self._changing(changes.change_status)
        self.comment = self._changing(changes.comment_on)
        self.mark_case = changing(store, marks.mark_case)
        self.mark_alerts = changing(store, marks.mark_alerts)
        self.close_matching = changing(store, bulk.close_matching)
        self.undo = changing(store, bulk.undo)

    def _changing(
        self, change: Callable[Concatenate[UnitOfWork, Actor, int, P], None]
    ) -> Callable[Concatenate[Actor, int, P], CaseDetail]:
        """The change of a case in a transaction of its own, which returns the case."""

        def changed(work: UnitOfWork, actor: Actor, case_id: int, *args: P.args, **named: P.kwargs) -> CaseDetail:
            change(work, actor, case_id, *args, **named)
            work.session.flush()
            return case_queries.case_detail(work, case_id)

        return changing(self.store, functools.wraps(change)(changed))

    def count_open(self, search: CaseSearch) -> int:
        with self.store.reading() as work:
            return bulk.matching_cases(work, search)

    def count_unreviewed(self, search: AlertSearch, snoozing: Snoozing) -> int:
        return len(self._matching(search, snoozing))

    def mark_matching(
        self, actor: Actor, search: AlertSearch, snoozing: Snoozing, verdict: MarkVerdict, comment: str = ""
    ) -> BulkChange:
        matching = self._matching(search, snoozing)
        with self.store.change(actor, comment) as work:
            return bulk.mark_matching(work, actor, search, matching, verdict, comment)

    def _matching(self, search: AlertSearch, snoozing: Snoozing) -> Sequence[str]:
        with self.store.reading() as work:
            return bulk.matching_alerts(work.session, search, snoozing)


class CollectionDesk:
    """Reads and changes lists, or maps, by name."""

    def __init__(self, store: StoreAccess, kind: CollectionKind) -> None:
        self.store = store
        self._kind = kind

    def item(self, name: str) -> ItemName:
        return ItemName(self._kind.value, name)

    def rows(self) -> tuple[Any, ...]:
        with self.store.reading() as work:
            return collection_queries.rows(work, self._kind.value)

    def detail(self, name: str) -> Any:
        with self.store.reading() as work:
            return collection_queries.detail(work, self.item(name))

    def values(self, name: str, **search: Any) -> Any:
        with self.store.reading() as work:
            return collection_queries.values(work, self.item(name), **search)

    def containing(self, value: int | str) -> list[str]:
        with self.store.reading() as work:
            return collection_queries.containing(work, value)

    def revisions(self, name: str, **page: Any) -> Page[CollectionRevision]:
        with self.store.reading() as work:
            return collection_queries.revisions(work, self.item(name), **page)

    def diff(self, name: str, before: int, after: int) -> CollectionDiff:
        with self.store.reading() as work:
            return collection_queries.diff(work, self.item(name), before, after)

    def export(self, name: str) -> str:
        with self.store.reading() as work:
            return collection_queries.export(work, self.item(name))

    def export_all(self, form: RuleFormat) -> str:
        with self.store.reading() as work:
            return collection_queries.export_all(work, self._kind.value, form)

    def preview(self, name: str, given: CollectionInput) -> CollectionDiff:
        return collection_queries.preview(self.store, self.item(name), given)

    def create(self, actor: Actor, name: str, given: CollectionInput, comment: str = "") -> Any:
        made = collection_transitions.parse_new(self.store, actor, self.item(name), given)
        with self.store.change(actor, comment) as work:
            collection_transitions.create(work, actor, made, comment)
        return self.detail(name)

    def change(self, actor: Actor, name: str, revision: int | None, given: CollectionInput, comment: str = "") -> Any:
        parsed = collection_transitions.parse_change(self.store, actor, self.item(name), given)
        with self.store.change(actor, comment) as work:
            head = collection_transitions.change(work, actor, parsed, revision, comment)
            deleted = head.deleted
        return None if deleted else self.detail(name)

    def import_file(
        self,
        actor: Actor,
        content: str,
        form: RuleFormat | None = None,
        revisions: Mapping[str, int] | None = None,
        comment: str = "",
        *,
        dry_run: bool = False,
    ) -> CollectionImportResult:
        return collection_imports.import_collections(
            self._kind, self.store, actor, content, form, revisions, comment, dry_run=dry_run
        )


class Desk:
    """Reads and changes rules, approvals, lists, maps, alert marks, snoozes, roles, tokens and the audit log."""

    def __init__(self, store: StoreAccess) -> None:
        self.store = store
        self.listen = store.listen
        self.lists = CollectionDesk(store, CollectionKind.LIST)
        self.maps = CollectionDesk(store, CollectionKind.MAP)
        self.searches = AlertSearches(store)
        self.cases = CaseDesk(store)
        self.search = reading(store, search)
        self.subscriptions = SubscriptionService(store)
        self.labels = LabelService(store, store.reader.schema)
        self.rule_names = reading(store, rule_queries.names)
        self.rules = reading(store, rule_queries.rows)
        self.rule = reading(store, rule_queries.detail)
        self.revisions = reading(store, rule_queries.revisions)
        self.diff = reading(store, rule_queries.diff)
        self.validate = reading(store, validate)
        self.export = reading(store, rule_queries.export)
        self.approvals = reading(store, rule_queries.approvals)
        self.approval_figures = reading(store, approval_figures)
        self.create = changing_rule(store, transitions.create)
        self.edit = changing_rule(store, transitions.edit)
        self.change_state = changing_rule(store, transitions.change_state)
        self.rollback = changing_rule(store, transitions.rollback)
        self.control = changing(store, transitions.control)
        self.decide = changing(store, decide)
        self.mark = changing(store, alert_marks.mark)
        self.unmark = changing(store, alert_marks.unmark)
        self.unsnooze = changing(store, alert_marks.unsnooze)
        self.bind = changing(store, bindings.bind)
        self.unbind = changing(store, bindings.unbind)
        self.create_token = changing(store, program_tokens.create)
        self.revoke_token = changing(store, program_tokens.revoke)

    def import_rules(
        self, actor: Actor, content: str, form: RuleFormat | None = None, comment: str = "", *, dry_run: bool = False
    ) -> ImportResult:
        return imports.import_rules(self.store, actor, content, form, comment, dry_run=dry_run)

    def approved_revisions(self, rule_id: int, items: Iterable[Revision]) -> frozenset[int]:
        with self.store.reading() as work:
            approved = approved_contents(work.session, rule_id, work.seeds)
        return frozenset(each.revision for each in items if approved.covers(each.document))

    def marks(self, alert_ids: Iterable[str]) -> Mapping[str, Mark]:
        with self.store.reading() as work:
            return alert_marks.marks(work.session, alert_ids)

    def labelled(self) -> Mapping[int, tuple[int, int]]:
        """The labelled frauds and other payments by rule."""
        with self.store.reading() as work:
            found = noisy_rules(work.session, work.now_ms)
        return {rule_id: (each.fraud, each.not_fraud) for rule_id, each in found.items() if each.precision is not None}

    def snoozes(self) -> tuple[Snooze, ...]:
        with self.store.reading() as work:
            return alert_marks.snoozes(work.session, work.now_ms)

    def snooze(self, actor: Actor, rule_id: int, key: dict[str, Any] | None, until_ms: int, reason: str) -> Snooze:
        with self.store.change(actor, reason, "reason") as work:
            return alert_marks.snooze(work, actor, rule_id, key, until_ms, reason)

    def role_of(self, user: str) -> Role | None:
        with self.store.reading() as work:
            return bindings.role_of(work.session, work.settings, user)

    def bindings(self) -> tuple[Binding, ...]:
        with self.store.reading() as work:
            return bindings.bindings(work.session, work.settings)

    def tokens(self, who: Actor) -> tuple[ProgramToken, ...]:
        with self.store.reading() as work:
            return program_tokens.tokens(work.session, who)

    def audit_rows(self, *wanted: AuditFilter, **page: Any) -> Page[AuditRow]:
        with self.store.reading() as work:
            return audit.rows(work.session, *wanted, **page)

    def verify_audit(self) -> AuditVerdict:
        with self.store.reading() as work:
            return audit.verify(work.session)

    def scan_audit(self) -> AuditState:
        return AuditScan().check(self.store.database, self.store.clock_ms())

    def audit_state(self) -> AuditState:
        with self.store.reading() as work:
            return audit.scan_state(work.session).shown(work.session)

    def outbox(self) -> OutboxState:
        return outbox_state(self.store.database)
