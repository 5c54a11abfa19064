"""The rules that name rules, in a writer's transaction: which rules name which, and the changes that the names forbid.

A rule of the rule log names rules of the log. A draft may also name drafts, because nothing evaluates it yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from fraud_control.domain.errors import Invalid
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleUse
from fraud_control.domain.rule_input import RuleReader
from fraud_control.service.collections.uses import names_in
from fraud_control.service.items.heads import in_use
from fraud_control.store.models import ItemHead, RevisionRow
from fraud_rules.errors import RuleRejected
from fraud_rules.model.rule import Rule, RuleDeletion
from fraud_rules.model.rule_names import deletion_faults, naming_faults

_CONDITIONS: Final = '"conditions"'
_HAS_CONDITIONS: Final = ItemHead.document.contains(_CONDITIONS)


class _Naming(NamedTuple):
    """A rule's state, and the rules that it names."""

    state: StateName
    named: tuple[int, ...]


class NamesInWork:
    """The names of rules as the transaction sees them. They are read once, at the first change that needs them."""

    def __init__(self, session: Session, reader: RuleReader) -> None:
        self._session = session
        self._reader = reader
        self._naming: dict[int, _Naming] | None = None
        self._states: dict[int, StateName] = {}

    def check(self, rule: Rule, state: StateName) -> None:
        """Raise Invalid if a rule that is saved in a state names a missing rule, or if names forbid that it names
        rules."""
        if not rule.named_rules:
            return
        faults = naming_faults(rule, partial(self._is_there, state), self.by_rule(state))
        if faults:
            raise Invalid(faults, rule.rule_id)

    def check_state(self, rule_id: int, state: StateName, document: str) -> None:
        """Raise Invalid if names forbid that the rule of a stored document gets a state."""
        if state is StateName.DELETE:
            faults = deletion_faults(rule_id, self.by_rule(state))
            if faults:
                raise Invalid(faults, rule_id)
        elif rules_in(self._reader, document) and (rule := self._reader.read_stored(document)) is not None:
            self.check(rule, state)

    def check_foreign(self, change: Rule | RuleDeletion, version: int) -> None:
        """Raise RuleRejected if the rule log rejects a record of another writer at offset `version` because of names.

        The store decides from its own copy of the log before the record.
        """
        if isinstance(change, RuleDeletion):
            faults = deletion_faults(change.rule_id, self._logged(version))
        elif change.named_rules:
            faults = naming_faults(change, partial(self._was_in_log, version), self._logged(version))
        else:
            return
        if faults:
            raise RuleRejected(faults, change.rule_id)

    def changed(self, rule_id: int, state: StateName, named: tuple[int, ...]) -> None:
        """Record a change of the transaction, or one that an import determines without saving it."""
        self._states[rule_id] = state
        if self._naming is not None:
            self._naming.pop(rule_id, None)
            if named and state is not StateName.DELETE:
                self._naming[rule_id] = _Naming(state, named)

    def saved(self, rule_id: int, state: StateName, document: str) -> None:
        """Record a saved document."""
        self.changed(rule_id, state, rules_in(self._reader, document))

    def forget(self) -> None:
        """Read everything again."""
        self._naming = None
        self._states.clear()

    def _is_there(self, state: StateName, rule_id: int) -> bool:
        """Whether a rule in a state may name this rule: one of the log, or for a draft any rule."""
        found = self._states.get(rule_id)
        if found is None:
            head = self._session.get(ItemHead, ItemName.of_rule(rule_id))
            found = StateName.DELETE if head is None else StateName(head.state)
        return found.in_log or (state is StateName.DRAFT and found is StateName.DRAFT)

    def by_rule(self, state: StateName = StateName.DRAFT) -> Mapping[int, tuple[int, ...]]:
        """The names on which a change to a state depends, by rule. Those of drafts matter to drafts only."""
        if self._naming is None:
            self._naming = {use.rule_id: _Naming(use.state, named) for use, named in _uses(self._session, self._reader)}
        return {
            rule_id: each.named
            for rule_id, each in self._naming.items()
            if each.state.in_log or state is StateName.DRAFT
        }

    def _logged(self, version: int) -> Mapping[int, tuple[int, ...]]:
        """The names of the rules of the log below offset `version`."""
        waits = and_(
            ItemHead.outbox_seq.is_not(None), or_(ItemHead.log_version.is_(None), ItemHead.log_version >= version)
        )
        heads = select(ItemHead).where(ItemHead.kind == RULE, or_(and_(in_use(RULE), _HAS_CONDITIONS), waits))
        found = {}
        for head in self._session.scalars(heads):
            state, document = self._before(head, version)
            if state.in_log and (named := rules_in(self._reader, document)):
                found[int(head.item_key)] = named
        return found

    def _was_in_log(self, version: int, rule_id: int) -> bool:
        head = self._session.get(ItemHead, ItemName.of_rule(rule_id))
        return head is not None and self._before(head, version)[0].in_log

    def _before(self, head: ItemHead, version: int) -> tuple[StateName, str]:
        """The state and the document of a rule by its newest record below an offset of the log."""
        if head.log_version is not None and head.log_version < version:
            return StateName(head.state), head.document
        newest = select(RevisionRow).where(RevisionRow.concerns(head.item), RevisionRow.log_version < version)
        row = self._session.scalars(newest.order_by(RevisionRow.log_version.desc()).limit(1)).one_or_none()
        return (StateName.DELETE, "{}") if row is None else (StateName(row.state), row.document)


def naming_rules(session: Session, reader: RuleReader, rule_id: int) -> Sequence[RuleUse]:
    """The rules that name this rule, drafts too."""
    return [use for use, named in _uses(session, reader) if rule_id in named]


def rules_in(reader: RuleReader, document: str) -> tuple[int, ...]:
    """The rules that a stored rule names."""
    return names_in(reader, document).rules if _CONDITIONS in document else ()


def _uses(session: Session, reader: RuleReader) -> Iterator[tuple[RuleUse, tuple[int, ...]]]:
    """The rules that name rules, drafts too, each with these."""
    rules = select(ItemHead.item_key, ItemHead.state, ItemHead.document).where(in_use(RULE), _HAS_CONDITIONS)
    for key, state, document in session.execute(rules.order_by(ItemHead.number)):
        if named := rules_in(reader, document):
            yield RuleUse(rule_id=int(key), name=names_in(reader, document).own, state=StateName(state)), named
