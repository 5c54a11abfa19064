"""Extensions of the API: packages above this one add routes through entry points, and this one imports none of them.

An entry point of the group `fraud_control` names a module with `routes`, a router of `routing.router`, and
`is_active`, which says whether the extension has anything to serve at the moment.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol, cast

from fastapi import APIRouter

from fraud_rules.configuration.entry_points import loaded_entry_points

_GROUP = "fraud_control"


class Extension(Protocol):
    """What an extension's module provides."""

    routes: APIRouter

    def is_active(self) -> bool: ...


@cache
def extensions() -> dict[str, Extension]:
    """The installed extensions by name."""
    return cast(dict[str, Extension], dict(loaded_entry_points(_GROUP)))


def active_extensions() -> frozenset[str]:
    """The names of the extensions that have something to serve at the moment."""
    return frozenset(name for name, extension in extensions().items() if extension.is_active())
