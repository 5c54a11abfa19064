"""What can go wrong at the control plane, as part of the product's one exception tree."""

from __future__ import annotations

from fraud_rules.errors import FraudError, RuleRejected

__all__ = [
    "AuditBroken", "Conflict", "ControlPlaneError", "Drifted", "Invalid", "LeadershipLost", "NotFound", "Refused",
    "StoreBusy", "Unavailable",
]  # fmt: skip


class ControlPlaneError(FraudError):
    """Anything the control plane refuses on purpose."""

    exit_code = 33


class NotFound(ControlPlaneError):
    """What is named does not exist."""

    exit_code = 34


class Conflict(ControlPlaneError):
    """Somebody else changed it first: read it again; `revision` is the newest one, None where there is none."""

    exit_code = 35

    def __init__(self, message: str, revision: int | None = None) -> None:
        super().__init__(message)
        self.revision = revision


class Refused(ControlPlaneError):
    """A role too small, or a step the lifecycle does not have. `forbidden` tells the first from the second."""

    exit_code = 36

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        super().__init__(message)
        self.forbidden = forbidden


class Invalid(RuleRejected):
    """What was given is not valid; `reasons` says why, by field."""


class Unavailable(ControlPlaneError):
    """The database, or the rule log, cannot be reached; trying again later may help."""

    exit_code = 37


class StoreBusy(Unavailable):
    """Another process or thread holds a lock or all connections of the control plane's database for too long."""

    exit_code = 60


class LeadershipLost(Unavailable):
    """This process has lost the lock by which it led; another process may lead."""

    exit_code = 61


class AuditBroken(ControlPlaneError):
    """A row of the audit log is not what was written."""

    exit_code = 38


class Drifted(ControlPlaneError):
    """The store and the rule log disagree about a rule, or the store has not taken in the whole log."""

    exit_code = 39
