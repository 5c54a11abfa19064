"""Compares the seed files of lists with the rule log. Pure. It only changes lists whose last record has the source
`seed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fraud_ops.verdicts.seeding import SEED, SeedChange, SeedEffect, approvers_of
from fraud_rules.codec.rules.apply import ValidatedRecord
from fraud_rules.codec.rules.collections.list_files import SeedList
from fraud_rules.codec.rules.collections.list_plan import plan_set
from fraud_rules.codec.rules.collections.lists import encode_list_records
from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.value_list import CollectionKind, ListChange, ListOperation, ValueList

__all__ = ["seed_lists"]


def seed_lists(
    seeds: Sequence[SeedList], validated: Sequence[ValidatedRecord], log: RuleTimeline, limits: RuleLimits
) -> tuple[SeedChange, ...]:
    """The changes of all lists of the files and the log, by name.

    A change needs the approval that a rule which names the list needs, in the files (`validated`) or in the log.
    """
    documents = _documents_by_list(validated, log)
    changes = [_of_file(seed, log, documents.get(seed.name, ()), limits) for seed in seeds]
    named = {seed.name for seed in seeds}
    gone = [known for name, known in log.lists.items() if name not in named and _source_of(known, log) == SEED]
    changes += [_deletion(known, documents.get(known.name, ()), limits) for known in gone]
    return tuple(sorted(changes, key=lambda change: change.subject))


def _of_file(
    seed: SeedList, log: RuleTimeline, documents: Iterable[Mapping[str, object]], limits: RuleLimits
) -> SeedChange:
    known, subject = log.lists.get(seed.name), f"list {seed.name}"
    if known is not None and (owner := _source_of(known, log)) != SEED:
        why = f"belongs to {owner or 'an unknown source'}; give the seed list another name"
        return SeedChange(subject, SeedEffect.LEFT_ALONE, why)
    records = plan_set(known, seed.name, seed.type, seed.values, SEED, limits)
    if not records:
        return SeedChange(subject, SeedEffect.UNCHANGED, "")
    effect = SeedEffect.CREATE if known is None else SeedEffect.CHANGE
    details = f"{len(set(seed.values))} values" + ("" if known is None else f", before: {known.size}")
    key, approvers = collection_key(CollectionKind.LIST, seed.name), approvers_of(*documents)
    return SeedChange(subject, effect, details, key, tuple(records), approvers, frozenset({seed.name}))


def _deletion(known: ValueList, documents: Iterable[Mapping[str, object]], limits: RuleLimits) -> SeedChange:
    records = encode_list_records(known.name, ListOperation.DELETE, None, [], SEED, limits.max_list_record_bytes)
    key, approvers, details = (
        collection_key(CollectionKind.LIST, known.name),
        approvers_of(*documents),
        f"{known.size} values",
    )
    names = frozenset({known.name})
    return SeedChange(f"list {known.name}", SeedEffect.DELETE, details, key, tuple(records), approvers, names)


def _source_of(known: ValueList, log: RuleTimeline) -> str | None:
    """The source of the last record of a list."""
    for entry in reversed(log.entries):
        if entry.version == known.version:
            return entry.change.source if isinstance(entry.change, ListChange) else None
    return None


def _documents_by_list(
    validated: Sequence[ValidatedRecord], log: RuleTimeline
) -> Mapping[str, Sequence[Mapping[str, object]]]:
    """The documents of the rules that name a list, in the files and in the log, by the list's name."""
    rules = [each.change for each in validated if isinstance(each.change, Rule)]
    rules += [known.rule for known in log.latest.rules.values()]
    found: dict[str, list[Mapping[str, object]]] = {}
    for rule in rules:
        for name in rule.lists:
            found.setdefault(name, []).append(rule.document)
    return found
