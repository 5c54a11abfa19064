"""The lists at any point of the rule log, and the rejections that follow from the log before a record.

`admit` goes through new entries in order. It rejects changes of lists and rules that do not fit the log before them: an
ADD to a missing list, a rule that names a missing list. So an entry of a timeline has its final outcome, and later
folds check nothing again. A rule record is decoded here only if it may name a list, or if its rule named one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fraud_rules.errors import Reason
from fraud_rules.model.log_entry import LogEntry, RecordOutcome, UndecodedRule
from fraud_rules.model.rule import Control, ControlType, Rule, RuleDeletion
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ValueList

__all__ = ["ListAdmission", "ListHistory", "Lists", "change_faults", "changes_rules", "list_faults"]

Lists = Mapping[str, ValueList]
"""Lists by name."""

_CACHED_LISTS = 256
_KEPT_ENDS = 4
_NAMED = 20  # rules in a message
_NO_LISTS: Lists = {}


def changes_rules(entry: LogEntry) -> bool:
    """Whether the entry can change the rule set. Changes of lists and rejected records cannot."""
    content = entry.content
    return isinstance(content, UndecodedRule) or isinstance(content.change, Rule | RuleDeletion | Control)


@dataclass(slots=True)
class _PendingList:
    """A list with accepted changes that are not applied yet. `at_most` is an upper bound of its size."""

    known: ValueList | None
    type: ListType
    at_most: int
    changes: list[tuple[int, ListChange]] = field(default_factory=list)

    def current(self) -> ValueList:
        """The list with all its changes."""
        if self.changes:
            (version, first), rest = self.changes[0], self.changes[1:]
            if self.known is None:
                self.known = ValueList.of(first.name, self.type, version, first.values())
                self.known = self.known.changed(rest) if rest else self.known
            else:
                self.known = self.known.changed(self.changes)
            self.changes = []
        assert self.known is not None  # a list begins with a SET
        self.at_most = self.known.size
        return self.known


class _ListFold:
    """Applies accepted changes of lists, in order. Changes of one list are applied together when they are needed."""

    def __init__(self, lists: Lists) -> None:
        self._lists = {name: _PendingList(each, each.type, each.size) for name, each in lists.items()}
        self._before = lists

    def type_of(self, name: str) -> ListType | None:
        """The type of a list; None for a missing list."""
        known = self._lists.get(name)
        return None if known is None else known.type

    def __len__(self) -> int:
        return len(self._lists)

    def apply(self, version: int, change: ListChange) -> None:
        """Apply an accepted change."""
        if change.operation is ListOperation.DELETE:
            del self._lists[change.name]
            return
        known = self._lists.get(change.name)
        if known is None or (change.operation is ListOperation.SET and change.type is not known.type):
            assert change.type is not None
            known = self._lists[change.name] = _PendingList(None, change.type, 0)
        count = change.count_bound()
        known.at_most = count if change.operation is ListOperation.SET else known.at_most + count
        known.changes.append((version, change))

    def too_long(self, change: ListChange) -> Reason | None:
        """The reason why the list would be too long after the change, or None."""
        most = change.limits.max_list_values
        known = self._lists.get(change.name)
        before = 0 if known is None or change.operation is ListOperation.SET else known.at_most
        if change.operation in (ListOperation.REMOVE, ListOperation.DELETE):
            return None
        if before + change.count_bound() <= most:
            return None
        values = set(change.values())
        size = len(values)
        if known is not None and change.operation is ListOperation.ADD:
            current = known.current()
            size += current.size - current.count_listed(list(values))
        if size <= most:
            return None
        return Reason("values", f"the list would have {size} values, at most {most} are allowed")

    def lists(self) -> Lists:
        """The lists after the changes so far. Returns the lists of the start if nothing has changed."""
        found = {name: pending.current() for name, pending in self._lists.items()}
        if len(found) == len(self._before) and all(self._before.get(name) is each for name, each in found.items()):
            return self._before
        self._before = found
        return found


@dataclass(frozen=True, slots=True)
class ListHistory:
    """The lists after each number of entries of one timeline.

    `naming` has the lists that rules in force name, by rule id. A hypothetical history accepts rules whose lists are
    missing.

    `_ends` holds the lists after the latest extensions of the log, by the number of entries, `_cache` those of other
    points. Both are bounded.
    """

    naming: Mapping[int, frozenset[str]] = field(default_factory=dict)
    hypothetical: bool = False
    _ends: Mapping[int, Lists] = field(default_factory=lambda: {0: _NO_LISTS})
    _cache: dict[int, Lists] = field(default_factory=dict)

    def admission(self, known: int) -> ListAdmission:
        """An admission of entries that follow the first `known` ones. It leaves this history as it is."""
        return ListAdmission(self._ends[known], self.naming, self.hypothetical)

    def admit(self, known: int, entries: Iterable[LogEntry]) -> tuple[list[LogEntry], ListHistory]:
        """Admit entries that follow the first `known` ones. Returns them with their final outcomes, and the longer
        history."""
        admission = self.admission(known)
        admitted = [admission.admit(entry) for entry in entries]
        ends = dict(list(self._ends.items())[1 - _KEPT_ENDS :])
        ends.pop(known + len(admitted), None)
        ends[known + len(admitted)] = admission.fold.lists()
        return admitted, ListHistory(admission.naming, self.hypothetical, ends, dict(self._cache))

    def at(self, count: int, entries: Sequence[LogEntry]) -> Lists:
        """The lists after the first `count` of the entries."""
        for found in (self._ends.get(count), self._cache.get(count)):
            if found is not None:
                return found
        start, lists = max(
            ((at, lists) for at, lists in (*self._ends.items(), *tuple(self._cache.items())) if at < count),
            default=(0, _NO_LISTS),
            key=lambda pair: pair[0],
        )
        fold = _ListFold(lists)
        for position in range(start, count):
            entry = entries[position]
            content = entry.content
            if isinstance(content, RecordOutcome) and isinstance(content.change, ListChange):
                fold.apply(entry.version, content.change)
        if len(self._cache) >= _CACHED_LISTS:
            self._cache.pop(next(iter(self._cache)), None)
        self._cache[count] = found = fold.lists()
        return found


def list_faults(rule: Rule, type_of: Callable[[str], ListType | None]) -> list[Reason]:
    """The reasons why a rule does not fit the lists: it names a list that is missing, or that has another type.

    `type_of` returns the type of a list, None for a missing one.
    """
    found = []
    for name, needed in sorted(rule.lists.items()):
        known = type_of(name)
        if known is None:
            found.append(Reason("when", f"there is no list '{name}'"))
        elif known is not needed:
            found.append(Reason("when", f"the list '{name}' has {known} values; the field is a {needed}"))
    return found


def change_faults(change: ListChange, known: ListType | None, lists: int, users: Iterable[int]) -> list[Reason]:
    """The reasons why a change of a list does not fit the log before it, apart from the length of the list.

    `known` is the type of the list, None for a missing list. `lists` is the number of lists, and `users` has the ids of
    the rules in force that name the list.
    """
    if change.operation is ListOperation.SET:
        if known is None and lists >= change.limits.max_lists:
            return [Reason("listName", f"there are {lists} lists, the highest number allowed")]
        if known is not None and known is not change.type:
            return _used(users, "listType", f"cannot change from {known} to {change.type}")
        return []
    if known is None:
        return [Reason("listName", f"there is no list '{change.name}'")]
    if change.type not in (None, known):
        return [Reason("listType", f"is {change.type}; the list has {known} values")]
    return _used(users, "listOperation", "cannot delete the list") if change.operation is ListOperation.DELETE else []


def _used(users: Iterable[int], member: str, what: str) -> list[Reason]:
    """The reason why a list in use must stay as it is."""
    rules = sorted(users)
    if not rules:
        return []
    named = f"rule {rules[0]} uses" if len(rules) == 1 else f"rules {', '.join(map(str, rules[:_NAMED]))} use"
    return [Reason(member, f"{what}: {named} it")]


class ListAdmission:
    """Rejects the entries that do not fit the log before them."""

    def __init__(self, lists: Lists, naming: Mapping[int, frozenset[str]], hypothetical: bool) -> None:
        self._hypothetical = hypothetical
        self.fold = _ListFold(lists)
        self.naming = naming
        self._own_naming = False

    def admit(self, entry: LogEntry) -> LogEntry:
        """The entry with its final outcome."""
        content = entry.content
        if isinstance(content, UndecodedRule) and not content.may_name_lists and content.rule_id not in self.naming:
            return entry
        match entry.change:
            case ListChange() as change:
                reasons = self._faults_of_change(change)
                if reasons:
                    return entry.as_rejected(reasons)
                self.fold.apply(entry.version, change)
            case Rule() as rule:
                reasons = [] if self._hypothetical else list_faults(rule, self.fold.type_of)
                if reasons:
                    return entry.as_rejected(reasons)
                self._name(rule.rule_id, frozenset(rule.lists))
            case RuleDeletion(rule_id):
                self._name(rule_id, frozenset())
            case Control(ControlType.DELETE_RULES_ALL):
                self.naming, self._own_naming = {}, True
        return entry

    def _name(self, rule_id: int, names: frozenset[str]) -> None:
        """Record the lists that a rule names."""
        if self.naming.get(rule_id, frozenset()) == names:
            return
        naming = self.naming if self._own_naming else dict(self.naming)
        assert isinstance(naming, dict)
        naming.pop(rule_id, None)
        if names:
            naming[rule_id] = names
        self.naming, self._own_naming = naming, True

    def _faults_of_change(self, change: ListChange) -> list[Reason]:
        known = self.fold.type_of(change.name)
        users = (rule_id for rule_id, names in self.naming.items() if change.name in names)  # most changes need none
        found = change_faults(change, known, len(self.fold), users)
        too_long = None if found else self.fold.too_long(change)
        return [too_long] if too_long is not None else found
