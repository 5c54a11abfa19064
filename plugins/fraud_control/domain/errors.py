"""The errors of the control plane, a branch of the product's exception tree."""

from __future__ import annotations

from enum import StrEnum

from fraud_rules.errors import FraudError, RuleRejected

__all__ = [
    "AuditBroken", "Conflict", "ControlPlaneError", "Drifted", "Invalid", "LeadershipLost", "LimitReached",
    "NameInUse", "NotFound", "RefusalCause", "RequestRefused", "StoreBusy", "StoreTooNew", "Unavailable",
]  # fmt: skip


class ControlPlaneError(FraudError):
    """The control plane refused the request."""

    exit_code = 33


class NotFound(ControlPlaneError):
    """The named object does not exist."""

    exit_code = 34


class Conflict(ControlPlaneError):
    """Another user changed the object first: read it again.

    `revision` is the newest revision, None if the object has no revisions.
    """

    exit_code = 35

    def __init__(self, message: str, revision: int | None = None) -> None:
        super().__init__(message)
        self.revision = revision


class RefusalCause(StrEnum):
    """Why a user may not make a change although the role allows it. The value is the slug of the problem."""

    SECOND_PERSON = "second-person"
    NOT_THE_AUTHOR = "not-the-author"
    PERSON_ONLY = "person-only"


class RequestRefused(ControlPlaneError):
    """The role is too low, or the state of a rule, list or case does not allow the change.

    `forbidden` is True if this user may not do it: because the role is too low, or for the `cause`.
    """

    exit_code = 36

    def __init__(self, message: str, *, forbidden: bool = False, cause: RefusalCause | None = None) -> None:
        super().__init__(message)
        self.forbidden = forbidden
        self.cause = cause


class LimitReached(RequestRefused):
    """The user already has as many requests or streams as one user may have. A later retry may succeed."""


class Invalid(RuleRejected):
    """The input is not valid. `reasons` has a field and a message for each fault."""


class Unavailable(ControlPlaneError):
    """The database or the rule log cannot be reached. A later retry may succeed."""

    exit_code = 37


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
