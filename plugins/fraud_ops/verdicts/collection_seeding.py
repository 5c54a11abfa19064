"""Compares the seed files of lists and maps with the rule log. Pure. It only changes lists and maps whose last record
has the source `seed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fraud_ops.verdicts.seeding import SEED, SeedChange, SeedEffect, approvers_of
from fraud_rules.codec.rules.apply import ValidatedRecord
from fraud_rules.codec.rules.collections.files import SeedCollection
from fraud_rules.codec.rules.collections.plan import encode_change, kind_of, plan_set
from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.model.collection_history import Collection
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.value_list import CollectionKind, CollectionName, ListChange, ListOperation
from fraud_rules.model.value_map import MapChange

_NOUNS = {CollectionKind.LIST: "values", CollectionKind.MAP: "entries"}
_Documents = Mapping[CollectionName, Sequence[Mapping[str, object]]]


def seed_collections(
    seeds: Sequence[SeedCollection], validated: Sequence[ValidatedRecord], log: RuleTimeline, limits: RuleLimits
) -> tuple[SeedChange, ...]:
    """The changes of all lists and maps of the files and the log, by kind and name.

    A change needs the approval that a rule which names the list or map needs, in the files (`validated`) or in the log.
    """
    documents, known = _documents_by_collection(validated, log), log.collections.by_name()
    wanted = {(kind_of(seed.type), seed.name): seed for seed in seeds}
    changes = [_of_file(name, seed, known.get(name), log, documents, limits) for name, seed in wanted.items()]
    gone = [each for name, each in known.items() if name not in wanted and _source_of(each, log) == SEED]
    changes += [_deletion(each, documents, limits) for each in gone]
    return tuple(sorted(changes, key=lambda change: change.subject))


def _of_file(
    name: CollectionName,
    seed: SeedCollection,
    known: Collection | None,
    log: RuleTimeline,
    documents: _Documents,
    limits: RuleLimits,
) -> SeedChange:
    kind, subject = name[0], f"{name[0]} {name[1]}"
    if known is not None and (owner := _source_of(known, log)) != SEED:
        why = f"belongs to {owner or 'an unknown source'}; give the seed {kind} another name"
        return SeedChange(subject, SeedEffect.LEFT_ALONE, why)
    records = plan_set(known, seed.name, seed.type, seed.entries, SEED, limits)
    if not records:
        return SeedChange(subject, SeedEffect.UNCHANGED, "")
    effect = SeedEffect.CREATE if known is None else SeedEffect.CHANGE
    details = f"{len(seed.entries)} {_NOUNS[kind]}" + ("" if known is None else f", before: {known.size}")
    approvers = approvers_of(*documents.get(name, ()))
    return SeedChange(subject, effect, details, collection_key(*name), tuple(records), approvers, frozenset({name}))


def _deletion(known: Collection, documents: _Documents, limits: RuleLimits) -> SeedChange:
    name = (known.kind, known.name)
    records = encode_change(*name, ListOperation.DELETE, None, {}, SEED, limits)
    approvers, details = approvers_of(*documents.get(name, ())), f"{known.size} {_NOUNS[known.kind]}"
    subject = f"{known.kind} {known.name}"
    return SeedChange(
        subject, SeedEffect.DELETE, details, collection_key(*name), tuple(records), approvers, frozenset({name})
    )


def _source_of(known: Collection, log: RuleTimeline) -> str | None:
    """The source of the last record of a list or map."""
    for entry in reversed(log.entries):
        if entry.version == known.version:
            return entry.change.source if isinstance(entry.change, ListChange | MapChange) else None
    return None


def _documents_by_collection(validated: Sequence[ValidatedRecord], log: RuleTimeline) -> _Documents:
    """The documents of the rules that name a list or map, in the files and in the log."""
    rules = [each.change for each in validated if isinstance(each.change, Rule)]
    rules += [known.rule for known in log.latest.rules.values()]
    found: dict[CollectionName, list[Mapping[str, object]]] = {}
    for rule in rules:
        for name in rule.collections:
            found.setdefault(name, []).append(rule.document)
    return found
