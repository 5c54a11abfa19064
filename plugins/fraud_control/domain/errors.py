"""The errors of the control plane, a branch of the product's exception tree."""

from __future__ import annotations

from fraud_rules.errors import (
    Conflict,
    ControlPlaneError,
    NotFound,
    RefusalCause,
    RequestRefused,
    RuleRejected,
    Unavailable,
)

__all__ = [
    "AuditBroken", "Conflict", "ControlPlaneError", "Drifted", "Invalid", "LeadershipLost", "LimitReached",
    "NameInUse", "NotFound", "RefusalCause", "RequestRefused", "StoreBusy", "StoreTooNew", "Unavailable",
]  # fmt: skip


class LimitReached(RequestRefused):
    """The user already has as many requests or streams as one user may have. A later retry may succeed."""


class Invalid(RuleRejected):
    """The input is not valid. `reasons` has a field and a message for each fault."""


class StoreBusy(Unavailable):
    """Another process or thread holds the control plane's database for too long."""

    exit_code = 60


class StoreTooNew(Unavailable):
    """A newer release has migrated the control plane's store: run that release, or restore a backup of before."""

    exit_code = 70


class LeadershipLost(Unavailable):
    """This process has lost its leadership, so another process may lead."""

    exit_code = 61


class AuditBroken(ControlPlaneError):
    """A row of the audit log was altered, inserted or removed."""

    exit_code = 38


class NameInUse(ControlPlaneError):
    """Another control plane with the same name, but another database, publishes to the same Kafka."""

    exit_code = 71


class Drifted(ControlPlaneError):
    """The store and the rule log differ in a rule, or the store has not read the whole log."""

    exit_code = 39
