"""Compares the seed files of lists and maps with the rule log. Pure. It only changes lists and maps whose last record
has the source `seed`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fraud_ops.verdicts.seeding import SEED, SeedChange, SeedEffect
from fraud_rules.codec.rules.collections.files import SeedCollection
from fraud_rules.codec.rules.collections.plan import encode_change, kind_of, plan_set
from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.model.collection_history import Collection
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.value_list import CollectionKind, CollectionName, ListChange, ListOperation
from fraud_rules.model.value_map import MapChange

_NOUNS = {CollectionKind.LIST: "values", CollectionKind.MAP: "entries"}


def seed_collections(seeds: Sequence[SeedCollection], log: RuleTimeline, limits: RuleLimits) -> tuple[SeedChange, ...]:
    """The changes of all lists and maps of the files and the log, by kind and name."""
    known = log.collections.by_name()
    wanted = {(kind_of(seed.type), seed.name): seed for seed in seeds}
    changes = [_of_file(name, seed, known.get(name), log, limits) for name, seed in wanted.items()]
    gone = [each for name, each in known.items() if name not in wanted and _source_of(each, log) == SEED]
    changes += [_deletion(each, limits) for each in gone]
    return tuple(sorted(changes, key=lambda change: change.subject))


def _of_file(
    name: CollectionName,
    seed: SeedCollection,
    known: Collection | None,
    log: RuleTimeline,
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
    return SeedChange(subject, effect, details, collection_key(*name), tuple(records))


def _deletion(known: Collection, limits: RuleLimits) -> SeedChange:
    name = (known.kind, known.name)
    records = encode_change(*name, ListOperation.DELETE, None, {}, SEED, limits)
    subject, details = f"{known.kind} {known.name}", f"{known.size} {_NOUNS[known.kind]}"
    return SeedChange(subject, SeedEffect.DELETE, details, collection_key(*name), tuple(records))


def _source_of(known: Collection, log: RuleTimeline) -> str | None:
    """The source of the last record of a list or map."""
    for entry in reversed(log.entries):
        if entry.version == known.version:
            return entry.change.source if isinstance(entry.change, ListChange | MapChange) else None
    return None
