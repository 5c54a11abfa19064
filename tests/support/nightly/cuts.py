"""Cuts of batches that a test gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fraud_rules.batch.reevaluation.cuts import Cuts, CutsBuilder


def cuts_of_ends(ends: Sequence[Mapping[int, int]], rules_ends: Sequence[int], refused: Iterable[int] = ()) -> Cuts:
    """Build from end offsets by partition, and pins."""
    builder = CutsBuilder()
    for each, rules_end in zip(ends, rules_ends, strict=True):
        builder.add(each, rules_end)
    builder.reject(refused)
    return builder.build()


def evaluated_ends(cuts: Cuts) -> dict[int, int]:
    """The offset after the last evaluated transaction, by partition."""
    return {partition: int(lasts[-1]) for partition, lasts in cuts.lasts.items() if len(lasts)}
