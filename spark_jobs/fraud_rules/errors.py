"""The exception tree of the product.

Every error that the product raises on purpose derives from `FraudError`. One place per library maps the library's
errors to it and keeps them as the cause. A message is one line that names the problem and the remedy. The `fraud`
command exits with the error's `exit_code`. The numbers are documented and never reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class FraudError(Exception):
    """A negative result, or an error without a class of its own. All errors of the product derive from this class."""

    exit_code: int = 1

    @classmethod
    def of_message(cls, message: str) -> Self:
        """Recreate the error that another process reported by its name and this message."""
        return cls(message)


class ConfigError(FraudError):
    """A configuration file or an environment override is wrong. The message lists every wrong key."""

    exit_code = 3


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """One fault of a rule: the faulty member (`record` for the whole record) and the change that corrects it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class RuleRejected(FraudError):
    """A record of the rule log is not a valid change. The error has all reasons, and the `rule_id`, `list_name` or
    `map_name` in the record, if it has one."""

    exit_code = 4

    def __init__(
        self,
        reasons: Iterable[Reason],
        rule_id: int | None = None,
        list_name: str | None = None,
        map_name: str | None = None,
    ) -> None:
        self.reasons: tuple[Reason, ...] = tuple(reasons)
        self.rule_id = rule_id
        self.list_name = list_name
        self.map_name = map_name
        super().__init__("; ".join(map(str, self.reasons)))

    @classmethod
    def of_message(cls, message: str) -> Self:
        """See `FraudError`."""
        parts = (reason.partition(": ") for reason in message.split("; "))
        return cls(Reason(field, text) for field, _, text in parts)

    def __reduce__(self) -> tuple[type[RuleRejected], tuple[tuple[Reason, ...], int | None, str | None, str | None]]:
        return (type(self), (self.reasons, self.rule_id, self.list_name, self.map_name))


class RecordRejected(FraudError):
    """A transaction record is unreadable and goes to quarantine.

    The error has a short, stable `reason` for counting, and a `detail`.
    """

    exit_code = 5

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")

    @classmethod
    def of_message(cls, message: str) -> Self:
        """See `FraudError`."""
        reason, _, detail = message.partition(": ")
        return cls(reason, detail)

    def __reduce__(self) -> tuple[type[RecordRejected], tuple[str, str]]:
        return (type(self), (self.reason, self.detail))


class InputInvalid(FraudError):
    """A command's argument, or a file named by it, is malformed. The exit code is that of a wrong option."""

    exit_code = 2


class BrokerUnavailable(FraudError):
    """Kafka cannot be reached, or a topic that must exist does not."""

    exit_code = 7


class RegistryUnavailable(FraudError):
    """The schema registry gives no answer, or none that a registry gives. No record was skipped; the next start repeats
    the batch. Known schemas do not need the registry."""

    exit_code = 72


class TransactionOpen(BrokerUnavailable):
    """An open transaction hides records that this process must read. A later attempt can read them."""

    exit_code = 65


class CheckpointDamaged(FraudError):
    """The marker is missing, unreadable, or older than the outputs. A start would write outputs again."""

    exit_code = 8


class CheckpointForeign(FraudError):
    """Settings, fields, key groups or topics do not fit the checkpoint, or a later version wrote it."""

    exit_code = 9


class Fenced(FraudError):
    """Another detector with the same name has taken over. This detector must end without writing."""

    exit_code = 10


class TransactionExpired(Fenced):
    """This process was suspended in a transaction for so long that the broker ended its writer. No other process has
    taken over, so a new start continues."""

    exit_code = 66


class StateDamaged(FraudError):
    """A key group's stored log does not match its head."""

    exit_code = 11


class PortInUse(FraudError):
    """Another process uses a port that this product is configured to use."""

    exit_code = 12


class DetectorStopped(FraudError):
    """A CLEAR_STATE_ALL_STOP in the rule log keeps the detector stopped until a person starts it explicitly."""

    exit_code = 13


class DetectorFailed(FraudError):
    """An unknown error ended the detector. The next start repeats the batch."""

    exit_code = 14


class AirflowFailed(FraudError):
    """A component of the local Airflow ended, or did not become healthy."""

    exit_code = 20


class Superseded(FraudError):
    """Another decision about the detector was recorded first, or a newer decision has replaced this one."""

    exit_code = 15


class Stalled(FraudError):
    """A check, a start or a batch made no progress for too long and was ended. The next attempt gets more time."""

    exit_code = 53


class ShutdownStalled(FraudError):
    """Spark did not stop in time after a requested shutdown and was killed. No data is lost."""

    exit_code = 54


class MemoryExhausted(FraudError):
    """A JVM of Spark ran out of memory and ended. The next start repeats the unfinished batch."""

    exit_code = 55


class ReleaseInvalid(FraudError):
    """A release's code differs from its declaration or fails the self-check. The running detector was not touched."""

    exit_code = 16


class ReleaseNotAllowed(FraudError):
    """The agent's allow-list does not permit a release. The running detector was not touched."""

    exit_code = 62


class IntentForged(FraudError):
    """An intent has no signature of an accepted key, so its writer may not request anything."""

    exit_code = 63


class MasterUnavailable(FraudError):
    """Spark's master cannot be reached, or Spark does not know this kind of master."""

    exit_code = 17


class HistoryLost(FraudError):
    """A rebuild needs records that retention has removed. It continues without them only if a person accepts this."""

    exit_code = 18


class AttemptUnreachable(FraudError):
    """A detector runs on this checkout's files in a place where the agent can neither see nor end it."""

    exit_code = 19


class ArchiveDamaged(FraudError):
    """A file of the archive is missing or differs from the written one. No result was published from it."""

    exit_code = 21


class ArchiveUnreachable(FraudError):
    """The object store of the archive does not answer, or refuses the access. Nothing is lost; run the job again."""

    exit_code = 64


class ArchiveBusy(FraudError):
    """Another run is archiving into the same folder."""

    exit_code = 22


class ArchiveBehind(FraudError):
    """The archive is so far behind that the topic's retention removes, or has removed, records before their copy."""

    exit_code = 23


class ArchiveFailed(FraudError):
    """An unknown error ended the archive's query. No part of its batch was committed."""

    exit_code = 24


class DayNotArchived(FraudError):
    """The archive does not reach to the end of the day yet."""

    exit_code = 25


class DayEmpty(FraudError):
    """The archive holds no transaction and no alert of the day."""

    exit_code = 26


class DayErased(FraudError):
    """An erasure removed payments that the alerts of the day depend on. The report is saved; nothing was published."""

    exit_code = 76


class DayTooOld(FraudError):
    """The day is before the first day that the archive keeps."""

    exit_code = 27


class DayBusy(FraudError):
    """Another run is evaluating the same day."""

    exit_code = 28


class RuleUnknown(FraudError):
    """The name of a rule is neither a file nor the id of a rule in the rule log."""

    exit_code = 29


class RuleLogForeign(FraudError):
    """Published alerts name rule versions that are not in the rule log, so they stem from another rule log."""

    exit_code = 30


class StorageFull(FraudError):
    """A disk is full. Readers ignore partly written files."""

    exit_code = 31


class MappingsExhausted(FraudError):
    """A worker may map no more files into its memory. The next start repeats the batch."""

    exit_code = 68


class ProofInvalid(FraudError):
    """A proof of an alert is damaged, or says what its records do not give. The message names what differs."""

    exit_code = 74


class NotProvable(FraudError):
    """An alert cannot be proved: the topics and the archive lack what it was computed from."""

    exit_code = 75


class ReevaluationFailed(FraudError):
    """An unknown error ended the evaluation of a day. No result was published."""

    exit_code = 32


class WarmUpFailed(FraudError):
    """An unknown error ended a warm-up job. No result was written; run the job again."""

    exit_code = 49


class ArchiveForeign(FraudError):
    """The archive has more records of a topic than Kafka. It belongs to another Kafka, or the topic was recreated."""

    exit_code = 40


class StillUnreadable(FraudError):
    """Quarantined records were not sent again, because the detector cannot read them. Others may have been sent."""

    exit_code = 47


class HistoryTooLate(FraudError):
    """History would reach the detector after newer payments and would therefore be late. No record was sent."""

    exit_code = 48


class HistoryRefused(FraudError):
    """More records of history files are unreadable than the caller permits. No record was imported or sent."""

    exit_code = 69


class TopicNotUnderstood(FraudError):
    """`fraud init` cannot propose a schema for these records. The message names what a person must choose.

    `missing` is the option that answers, without its dashes; empty if no option does.
    """

    exit_code = 73

    def __init__(self, message: str, missing: str = "") -> None:
        super().__init__(message)
        self.missing = missing


class OffsetsLost(FraudError):
    """Records were removed before the detector read them. It continues without them only if a person accepts this."""

    exit_code = 41


class TopicUnsuitable(FraudError):
    """The configuration of a topic that the detector reads would make results wrong or records vanish."""

    exit_code = 42


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


class Unavailable(ControlPlaneError):
    """The database or the rule log cannot be reached. A later retry may succeed."""

    exit_code = 37


def kinds_of_error(root: type[FraudError] = FraudError) -> Iterator[type[FraudError]]:
    """List the exception tree, depth first."""
    yield root
    for kind in root.__subclasses__():
        yield from kinds_of_error(kind)


def error_name(exit_code: int) -> str | None:
    """The name of the error that a process ended with; None for 0, for a signal, and for foreign exit codes."""
    return next((kind.__name__ for kind in kinds_of_error() if kind.exit_code == exit_code), None)
