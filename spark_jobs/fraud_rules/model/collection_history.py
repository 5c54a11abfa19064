"""The lists and maps at any point of the rule log, and the rejections that follow from the log before a record.

`admit` goes through new entries in order. It rejects changes of collections and rules that do not fit the log before
them: an ADD to a missing list, a rule that names a missing map or rule. So an entry of a timeline has its final
outcome, and later folds check nothing again. A rule record is decoded here only if it may name a collection or a rule,
or if its rule named one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from fraud_rules.errors import Reason
from fraud_rules.model.expressions.lookups import Lookup
from fraud_rules.model.log_entry import LogEntry, RecordOutcome, UndecodedRule
from fraud_rules.model.rule import Control, ControlType, Rule, RuleDeletion
from fraud_rules.model.rule_fold import RuleSet
from fraud_rules.model.rule_names import NamesInForce, deletion_faults
from fraud_rules.model.value_list import CollectionKind, CollectionName, ListChange, ListOperation, ListType, ValueList
from fraud_rules.model.value_map import MapChange, MapType, ValueMap

Lists = Mapping[str, ValueList]
"""Lists by name."""
Maps = Mapping[str, ValueMap]
"""Maps by name."""
Collection: TypeAlias = ValueList | ValueMap
CollectionChange: TypeAlias = ListChange | MapChange
CollectionType: TypeAlias = ListType | MapType

_CACHED_COLLECTIONS = 256
_KEPT_ENDS = 4
_NAMED = 20  # rules in a message


class Collections(NamedTuple):
    """The lists and maps at one point of the rule log."""

    lists: Lists
    maps: Maps

    def of(self, name: CollectionName) -> Collection | None:
        """The list or map of this name; None if it is missing."""
        kind, plain = name
        return self.lists.get(plain) if kind is CollectionKind.LIST else self.maps.get(plain)

    def by_name(self) -> dict[CollectionName, Collection]:
        """All lists and maps."""
        every: list[Collection] = [*self.lists.values(), *self.maps.values()]
        return {(each.kind, each.name): each for each in every}


_NONE = Collections({}, {})


def changes_rules(entry: LogEntry) -> bool:
    """Whether the entry can change the rule set. Changes of collections and rejected records cannot."""
    content = entry.content
    return isinstance(content, UndecodedRule) or isinstance(content.change, Rule | RuleDeletion | Control)


@dataclass(slots=True)
class _Pending:
    """A collection with accepted changes that are not applied yet. `at_most` is an upper bound of its size, and
    `bytes_at_most` of the bytes of a map's entries."""

    known: Any
    type: CollectionType
    at_most: int
    bytes_at_most: int
    changes: list[tuple[int, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, known: Collection) -> _Pending:
        """A collection without further changes."""
        return cls(known, known.type, known.size, _bytes_of(known))

    def current(self) -> Any:
        """The collection with all its changes."""
        if self.changes:
            if self.known is None:
                version, first = self.changes.pop(0)
                self.known = first.begin(self.type, version)
            if self.changes:
                self.known = self.known.changed(self.changes)
            self.changes = []
        assert self.known is not None  # a collection begins with a SET
        self.at_most, self.bytes_at_most = self.known.size, _bytes_of(self.known)
        return self.known

    def add(self, version: int, change: CollectionChange) -> None:
        """Add an accepted change."""
        begins = change.operation is ListOperation.SET
        self.at_most = change.count_bound() + (0 if begins else self.at_most)
        self.bytes_at_most = _bytes_bound(change) + (0 if begins else self.bytes_at_most)
        self.changes.append((version, change))


def _bytes_of(known: Collection) -> int:
    return known.entry_bytes if isinstance(known, ValueMap) else 0


def _bytes_bound(change: CollectionChange) -> int:
    return change.bytes_bound() if isinstance(change, MapChange) else 0


class _Fold:
    """Applies accepted changes of collections, in order. Changes of one collection are applied together when they are
    needed."""

    def __init__(self, known: Collections) -> None:
        self._pending = {name: _Pending.of(each) for name, each in known.by_name().items()}
        self._before = known

    def type_of(self, name: CollectionName) -> CollectionType | None:
        """The type of a collection; None for a missing one."""
        known = self._pending.get(name)
        return None if known is None else known.type

    def count(self, kind: CollectionKind) -> int:
        """The number of lists, or of maps."""
        return sum(each is kind for each, _ in self._pending)

    def apply(self, version: int, change: CollectionChange) -> None:
        """Apply an accepted change."""
        name = (change.kind, change.name)
        if change.operation is ListOperation.DELETE:
            del self._pending[name]
            return
        known = self._pending.get(name)
        if known is None or (change.operation is ListOperation.SET and change.type != known.type):
            assert change.type is not None
            known = self._pending[name] = _Pending(None, change.type, 0, 0)
        known.add(version, change)

    def too_large(self, change: CollectionChange) -> Reason | None:
        """The reason why the collection would be too large after the change, or None."""
        if change.operation in (ListOperation.REMOVE, ListOperation.DELETE):
            return None
        return self._too_many(change) or (self._too_many_bytes(change) if isinstance(change, MapChange) else None)

    def _too_many(self, change: CollectionChange) -> Reason | None:
        most = change.most_members
        known = self._pending.get((change.kind, change.name))
        before = 0 if known is None or change.operation is ListOperation.SET else known.at_most
        if before + change.count_bound() <= most:
            return None
        members: list[Any] = list(change.updates(self._type_after(change)))  # type: ignore[arg-type]
        size = len(members)
        if known is not None and change.operation is ListOperation.ADD:
            current = known.current()
            size += current.size - current.count_listed(members)
        if size <= most:
            return None
        member = change.content_member
        return Reason(member, f"the {change.kind} would have {size} {member}, at most {most} are allowed")

    def _too_many_bytes(self, change: MapChange) -> Reason | None:
        most, name = change.limits.max_map_bytes, (change.kind, change.name)
        others = [each for other, each in self._pending.items() if other != name]
        known = self._pending.get(name)
        before = 0 if known is None or change.operation is ListOperation.SET else known.bytes_at_most
        if sum(each.bytes_at_most for each in others) + before + change.bytes_bound() <= most:
            return None
        map_type = self._type_after(change)
        assert isinstance(map_type, MapType)
        if known is None or change.operation is ListOperation.SET:
            after = change.begin(map_type, 0)
        else:
            after = known.current().changed([(0, change)])
        size = after.entry_bytes + sum(_bytes_of(each.current()) for each in others)
        if size <= most:
            return None
        return Reason(change.content_member, f"all maps would have {size} bytes, at most {most} are allowed")

    def _type_after(self, change: CollectionChange) -> CollectionType:
        """The type of the collection after an ADD, or a SET, which has a type."""
        known = self.type_of((change.kind, change.name))
        found = change.type if known is None or change.operation is ListOperation.SET else known
        assert found is not None
        return found

    def collections(self) -> Collections:
        """The collections after the changes so far. Returns those of the start if nothing has changed."""
        found = {name: pending.current() for name, pending in self._pending.items()}
        before = self._before.by_name()
        if len(found) == len(before) and all(before.get(name) is each for name, each in found.items()):
            return self._before
        self._before = Collections(
            {name: each for (kind, name), each in found.items() if kind is CollectionKind.LIST},
            {name: each for (kind, name), each in found.items() if kind is CollectionKind.MAP},
        )
        return self._before


@dataclass(frozen=True, slots=True)
class CollectionHistory:
    """The collections after each number of entries of one timeline.

    `naming` has the lists and maps that rules in force name, by rule id. A hypothetical history accepts rules whose
    collections are missing.

    `_ends` holds the collections after the latest extensions of the log, by the number of entries, `_cache` those of
    other points. Both are bounded.
    """

    naming: Mapping[int, frozenset[CollectionName]] = field(default_factory=dict)
    hypothetical: bool = False
    _ends: Mapping[int, Collections] = field(default_factory=lambda: {0: _NONE})
    _cache: dict[int, Collections] = field(default_factory=dict)

    def admission(self, known: int, rules: RuleSet) -> CollectionAdmission:
        """An admission of entries that follow the first `known` ones, after which `rules` are in force. It leaves this
        history as it is."""
        return CollectionAdmission(self._ends[known], self.naming, self.hypothetical, rules)

    def admit(
        self, known: int, entries: Iterable[LogEntry], rules: RuleSet
    ) -> tuple[list[LogEntry], CollectionHistory]:
        """Admit entries that follow the first `known` ones, after which `rules` are in force. Returns them with their
        final outcomes, and the longer history."""
        admission = self.admission(known, rules)
        admitted = [admission.admit(entry) for entry in entries]
        ends = dict(list(self._ends.items())[1 - _KEPT_ENDS :])
        ends.pop(known + len(admitted), None)
        ends[known + len(admitted)] = admission.fold.collections()
        return admitted, CollectionHistory(admission.naming, self.hypothetical, ends, dict(self._cache))

    def at(self, count: int, entries: Sequence[LogEntry]) -> Collections:
        """The collections after the first `count` of the entries."""
        for found in (self._ends.get(count), self._cache.get(count)):
            if found is not None:
                return found
        start, known = max(
            ((at, known) for at, known in (*self._ends.items(), *tuple(self._cache.items())) if at < count),
            default=(0, _NONE),
            key=lambda pair: pair[0],
        )
        fold = _Fold(known)
        for position in range(start, count):
            entry = entries[position]
            content = entry.content
            if isinstance(content, RecordOutcome) and isinstance(content.change, ListChange | MapChange):
                fold.apply(entry.version, content.change)
        if len(self._cache) >= _CACHED_COLLECTIONS:
            self._cache.pop(next(iter(self._cache)), None)
        self._cache[count] = found = fold.collections()
        return found


def lookup_faults(
    lookups: Iterable[tuple[str, Lookup]], type_of: Callable[[CollectionName], CollectionType | None]
) -> list[Reason]:
    """The reasons why look-ups, with their members of a rule, do not fit the lists and maps: one is missing, or has
    another type.

    `type_of` returns the type of a collection, None for a missing one.
    """
    found = []
    for member, lookup in sorted(lookups, key=lambda each: (each[0], each[1].collection, str(each[1].type))):
        kind, name = lookup.collection
        known = type_of(lookup.collection)
        if known is None:
            found.append(Reason(member, f"there is no {kind} '{name}'"))
        elif known != lookup.type:
            found.append(Reason(member, _other_type(name, known, lookup.type)))
    return list(dict.fromkeys(found))


def _other_type(name: str, known: CollectionType, needed: CollectionType) -> str:
    if isinstance(known, MapType):
        return f"the map '{name}' is {known}; the rule needs {needed}"
    return f"the list '{name}' has {known} values; the field is a {needed}"


def change_faults(
    change: CollectionChange, known: CollectionType | None, count: int, users: Iterable[int]
) -> list[Reason]:
    """The reasons why a change of a collection does not fit the log before it, apart from the size of the collection.

    `known` is the type of the collection, None for a missing one. `count` is the number of collections of its kind, and
    `users` has the ids of the rules in force that name it.
    """
    kind = change.kind
    if change.operation is ListOperation.SET:
        if known is None and count >= change.most_of_kind:
            return [Reason(f"{kind}Name", f"there are {count} {kind}s, the highest number allowed")]
        if known is not None and known != change.type:
            member = change.type_member(known)  # type: ignore[arg-type]
            return _used(users, member, f"cannot change from {known} to {change.type}")
        return []
    if known is None:
        return [Reason(f"{kind}Name", f"there is no {kind} '{change.name}'")]
    faults = change.type_faults(known)  # type: ignore[arg-type]
    if faults:
        return faults
    if change.operation is not ListOperation.DELETE:
        return []
    return _used(users, f"{kind}Operation", f"cannot delete the {kind}")


def _used(users: Iterable[int], member: str, what: str) -> list[Reason]:
    """The reason why a collection in use must stay as it is."""
    rules = sorted(users)
    if not rules:
        return []
    named = f"rule {rules[0]} uses" if len(rules) == 1 else f"rules {', '.join(map(str, rules[:_NAMED]))} use"
    return [Reason(member, f"{what}: {named} it")]


class CollectionAdmission:
    """Rejects the entries that do not fit the log before them."""

    def __init__(
        self,
        known: Collections,
        naming: Mapping[int, frozenset[CollectionName]],
        hypothetical: bool,
        rules: RuleSet,
    ) -> None:
        self._hypothetical = hypothetical
        self._names = NamesInForce(rules)
        self.fold = _Fold(known)
        self.naming = naming
        self._own_naming = False

    def admit(self, entry: LogEntry) -> LogEntry:
        """The entry with its final outcome."""
        content = entry.content
        if (
            isinstance(content, UndecodedRule)
            and not content.may_name
            and content.rule_id not in self.naming
            and content.rule_id not in self._names.naming
        ):
            self._names.add_undecoded(content.rule_id, entry)
            return entry
        match entry.change:
            case (ListChange() | MapChange()) as change:
                reasons = self._faults_of_change(change)
                if reasons:
                    return entry.as_rejected(reasons)
                self.fold.apply(entry.version, change)
            case Rule() as rule:
                reasons = [] if self._hypothetical else self._faults_of_rule(rule)
                if reasons:
                    return entry.as_rejected(reasons)
                self._name(rule.rule_id, rule.collections)
                self._names.put(rule)
            case RuleDeletion(rule_id):
                reasons = [] if self._hypothetical else deletion_faults(rule_id, self._names.naming)
                if reasons:
                    return entry.as_rejected(reasons)
                self._name(rule_id, frozenset())
                self._names.remove(rule_id)
            case Control(ControlType.DELETE_RULES_ALL):
                self.naming, self._own_naming = {}, True
                self._names.clear()
        return entry

    def _name(self, rule_id: int, names: frozenset[CollectionName]) -> None:
        """Record the collections that a rule names."""
        if self.naming.get(rule_id, frozenset()) == names:
            return
        naming = self.naming if self._own_naming else dict(self.naming)
        assert isinstance(naming, dict)
        naming.pop(rule_id, None)
        if names:
            naming[rule_id] = names
        self.naming, self._own_naming = naming, True

    def _faults_of_rule(self, rule: Rule) -> list[Reason]:
        return [*lookup_faults(rule.lookups, self.fold.type_of), *self._names.faults(rule)]

    def _faults_of_change(self, change: CollectionChange) -> list[Reason]:
        name = (change.kind, change.name)
        users = (rule_id for rule_id, names in self.naming.items() if name in names)  # most changes need none
        found = change_faults(change, self.fold.type_of(name), self.fold.count(change.kind), users)
        too_large = None if found else self.fold.too_large(change)
        return [too_large] if too_large is not None else found
