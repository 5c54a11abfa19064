"""Compares re-evaluated alerts with the published ones. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class AlertVerdict(StrEnum):
    """The verdict on an alert: ADDED (missing), RETRACTED (spurious) or CONFIRMED."""

    ADDED = "ADDED"
    RETRACTED = "RETRACTED"
    CONFIRMED = "CONFIRMED"


def compare(published: Collection[str], found: Collection[str]) -> dict[str, AlertVerdict]:
    """The verdict on each alert id."""
    known = frozenset(published)
    verdicts = {each: AlertVerdict.CONFIRMED if each in known else AlertVerdict.ADDED for each in found}
    verdicts |= dict.fromkeys(known - verdicts.keys(), AlertVerdict.RETRACTED)
    return verdicts
