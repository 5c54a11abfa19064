"""The one exception tree.

Every error this product raises on purpose derives from `FraudError`; foreign errors are mapped to it in one place and
kept as the cause. A message says what happened and what to do about it, on one line. `exit_code` is what the `fraud`
command ends with; the numbers are documented there and never reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self


class FraudError(Exception):
    """Anything that stops a command on purpose."""

    exit_code: int = 1

    @classmethod
    def of_message(cls, message: str) -> Self:
        """The error that another process reported by its name and this message."""
        return cls(message)


class ConfigError(FraudError):
    """A configuration file or an environment override is wrong; lists every wrong key."""

    exit_code = 3


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """One thing wrong with a rule: the member it is about (`record` for the record as a whole) and what to change."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class RuleRejected(FraudError):
    """A rule record that is not a valid change; carries every reason at once, and the `rule_id` where it has one."""

    exit_code = 4

    def __init__(self, reasons: Iterable[Reason], rule_id: int | None = None) -> None:
        self.reasons: tuple[Reason, ...] = tuple(reasons)
        self.rule_id = rule_id
        super().__init__("; ".join(map(str, self.reasons)))

    @classmethod
    def of_message(cls, message: str) -> Self:
        """See `FraudError`."""
        parts = (reason.partition(": ") for reason in message.split("; "))
        return cls(Reason(field, text) for field, _, text in parts)

    def __reduce__(self) -> tuple[type[RuleRejected], tuple[tuple[Reason, ...], int | None]]:
        return (type(self), (self.reasons, self.rule_id))


class RecordRejected(FraudError):
    """A transaction record that goes to quarantine: a short stable `reason` for counting, and the `detail`."""

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
    """A file given to a command cannot be read as what it should be: a wrong argument, like a wrong option."""

    exit_code = 2


class BrokerUnavailable(FraudError):
    """Kafka cannot be reached, or a topic that must exist does not."""

    exit_code = 7


class CheckpointDamaged(FraudError):
    """The checkpoint has been changed or has lost files; it is never replaced by an empty one."""

    exit_code = 8


class CheckpointForeign(FraudError):
    """The checkpoint belongs to another job, or was made with settings that are fixed with it."""

    exit_code = 9


class Fenced(FraudError):
    """Another detector with the same name has taken over; this one must end without writing."""

    exit_code = 10


class StateDamaged(FraudError):
    """A key group's stored log does not match its head."""

    exit_code = 11


class PortInUse(FraudError):
    """A port this product was told to use belongs to another process."""

    exit_code = 12


class DetectorStopped(FraudError):
    """A CLEAR_STATE_ALL_STOP in the rule log holds the detector stopped until somebody starts it explicitly."""

    exit_code = 13


class DetectorFailed(FraudError):
    """The detector's query ended by an error that has no name of its own; the next start repeats the batch."""

    exit_code = 14


class AirflowFailed(FraudError):
    """A component of the local Airflow ended, or did not become healthy."""

    exit_code = 20


class Superseded(FraudError):
    """Somebody else's decision about the detector came first, or a newer one has come since."""

    exit_code = 15


class Stalled(FraudError):
    """A check, a start or a batch made no progress for so long that it was ended; the next attempt gets more time."""

    exit_code = 53


class ShutdownStalled(FraudError):
    """Spark did not stop in time after an end that was asked for, and was killed; nothing is lost."""

    exit_code = 54


class MemoryExhausted(FraudError):
    """A JVM of Spark has run out of memory and has ended; the next start repeats the batch in hand."""

    exit_code = 55


class ReleaseInvalid(FraudError):
    """A release whose code is not what it should be, or fails its self-check; nothing was touched."""

    exit_code = 16


class MasterUnavailable(FraudError):
    """Spark's master cannot be reached, or is none that Spark knows."""

    exit_code = 17


class HistoryLost(FraudError):
    """A rebuild needs records that retention has removed; it goes on without them only when told to."""

    exit_code = 18


class AttemptUnreachable(FraudError):
    """A detector runs on this checkout's files where this agent can neither see nor end it."""

    exit_code = 19


class ArchiveDamaged(FraudError):
    """The archive misses a file or has one that is not what was written; nothing was published from it."""

    exit_code = 21


class ArchiveBusy(FraudError):
    """Another run archives into the same folder."""

    exit_code = 22


class ArchiveBehind(FraudError):
    """The archive is so far behind that the topic's retention removes, or has removed, what it has not copied."""

    exit_code = 23


class ArchiveFailed(FraudError):
    """The archive's query ended by an error that has no name of its own; nothing of its batch was committed."""

    exit_code = 24


class DayNotArchived(FraudError):
    """The archive does not reach to the end of the day yet."""

    exit_code = 25


class DayEmpty(FraudError):
    """The archive holds nothing of the day: no transaction, no alert."""

    exit_code = 26


class DayTooOld(FraudError):
    """The day lies before what the archive keeps."""

    exit_code = 27


class DayBusy(FraudError):
    """Another run evaluates the same day."""

    exit_code = 28


class RuleUnknown(FraudError):
    """A rule that is named is neither a file nor in the rule log."""

    exit_code = 29


class RuleLogForeign(FraudError):
    """Published alerts name rule versions that the rule log does not have: it is another log than theirs."""

    exit_code = 30


class StorageFull(FraudError):
    """A disk is full; nothing half-written counts."""

    exit_code = 31


class ReevaluationFailed(FraudError):
    """The evaluation of a day ended by an error that has no name of its own; nothing was published."""

    exit_code = 32


class ArchiveForeign(FraudError):
    """The archive has copied more of a topic than there is: it is of another Kafka, or the topic was made anew."""

    exit_code = 40


class StillUnreadable(FraudError):
    """Quarantined records were not fed again, because the detector cannot read them; others may have been."""

    exit_code = 47


class HistoryTooLate(FraudError):
    """History would reach the detector after newer payments, so it would be late; nothing was sent."""

    exit_code = 48


class OffsetsLost(FraudError):
    """Records are gone before the detector has read them; it goes on without them only when told to."""

    exit_code = 41


class TopicUnsuitable(FraudError):
    """A topic that the detector reads is configured so that results would be wrong or records would vanish."""

    exit_code = 42


def kinds_of_error(root: type[FraudError] = FraudError) -> Iterator[type[FraudError]]:
    """The exception tree, flat."""
    yield root
    for kind in root.__subclasses__():
        yield from kinds_of_error(kind)


def error_name(exit_code: int) -> str | None:
    """The error that a process ended with; None for 0, for a signal, and for what is none of this product's."""
    return next((kind.__name__ for kind in kinds_of_error() if kind.exit_code == exit_code), None)
