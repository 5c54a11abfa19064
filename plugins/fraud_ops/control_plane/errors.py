"""What can go wrong at the control plane, as part of the product's one exception tree."""

from __future__ import annotations

from fraud_rules.errors import FraudError, RuleRejected

__all__ = ["AuditBroken", "Conflict", "ControlPlaneError", "Drifted", "Invalid", "NotFound", "Refused", "Unavailable"]


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


class AuditBroken(ControlPlaneError):
    """A row of the audit log is not what was written."""

    exit_code = 38


class Drifted(ControlPlaneError):
    """The store and the rule log disagree about a rule."""

    exit_code = 39
