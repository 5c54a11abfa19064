"""Compares re-evaluated alerts with the published ones. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

__all__ = ["Verdict", "compare"]


class Verdict(StrEnum):
    """The verdict on an alert: ADDED (missing), RETRACTED (spurious) or CONFIRMED."""

    ADDED = "ADDED"
    RETRACTED = "RETRACTED"
    CONFIRMED = "CONFIRMED"


def compare(published: Collection[str], found: Collection[str]) -> dict[str, Verdict]:
    """The verdict on each alert id."""
    known = frozenset(published)
    verdicts = {each: Verdict.CONFIRMED if each in known else Verdict.ADDED for each in found}
    verdicts |= dict.fromkeys(known - verdicts.keys(), Verdict.RETRACTED)
    return verdicts
