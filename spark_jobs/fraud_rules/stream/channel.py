"""The driver's channel: how tasks reach the driver while they run.

Spark passes the accumulators of a task on only when the task has ended, all collected rows pass through the driver's
JVM, and a job costs more than a small batch. So tasks send their progress and large outputs to an Arrow Flight server
in the driver, and the evaluator of small batches gets its batches from there. This module has what both sides share;
`driver.channel_server` is the server, `worker.driver_link` the client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple

import msgspec

AUTHORIZATION: Final = "authorization"
"""The header with the token of the detector's start."""

PROGRESS: Final = "progress"
"""The action whose body is an encoded `TaskReport`."""

PREPARATION: Final = "preparation"
"""The action whose body is an encoded `PreparationReport`."""

CHANNEL_VARIABLE: Final = "FRAUD_DRIVER_CHANNEL"
"""The environment variable of an executor's Python daemon with an encoded `ChannelAddress`."""

CHANNEL_PORT: Final = "spark.fraud.channel.port"
"""The Spark setting with the server's port. Without it, the port is a free one."""

SERVER_NAME: Final = "fraud-driver"
"""The name in the certificate of a driver on another host."""


@dataclass(frozen=True, slots=True)
class ChannelAddress:
    """The address of a driver's channel. A task receives it with its code, as it receives the secrets of Kafka.

    `location` is a URI of Arrow Flight. `certificate` is the server's, in PEM.
    """

    location: str
    token: str = field(repr=False)
    certificate: str = field(repr=False)

    def encode(self) -> str:
        """Encode for `decode`."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> ChannelAddress:
        """Decode the result of `encode`. Raises msgspec.DecodeError."""
        return _decode_address(text)


class TaskReport(msgspec.Struct, array_like=True):
    """The progress of one task of a batch, see `work.TasksProgress`. `task` is Spark's number of the task, `attempt`
    that of its attempt, 0 for the first."""

    batch_id: int
    task: int
    attempt: int
    restored: int
    rows: int
    key_groups: int
    restores: bool
    fetched_bytes: int

    def encode(self) -> bytes:
        """Encode for `decode`."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(text: bytes) -> TaskReport:
        """Decode the result of `encode`. Raises msgspec.DecodeError."""
        return _decode(text)


class PreparationReport(msgspec.Struct, array_like=True):
    """The CPU time that the Python daemon of an executor has used before its first task. `daemon` is unique among the
    daemons of all hosts."""

    daemon: Annotated[str, msgspec.Meta(max_length=300)]
    cpu_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)]

    def encode(self) -> bytes:
        """Encode for `decode`."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(text: bytes) -> PreparationReport:
        """Decode the result of `encode`. Raises msgspec.DecodeError."""
        return _decode_preparation(text)


class EvaluatorAttempt(NamedTuple):
    """An attempt of the evaluator's task, which names its exchange with the driver. `job` is the driver's number of the
    evaluator's job. A later attempt is greater."""

    job: int
    attempt: int

    def encode(self) -> bytes:
        """Encode for `decode`."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(text: bytes) -> EvaluatorAttempt:
        """Decode the result of `encode`. Raises msgspec.DecodeError."""
        return _decode_attempt(text)


_decode_address = msgspec.json.Decoder(ChannelAddress).decode
_decode_preparation = msgspec.json.Decoder(PreparationReport).decode
_decode = msgspec.json.Decoder(TaskReport).decode
_decode_attempt = msgspec.json.Decoder(EvaluatorAttempt).decode


def bearer(token: str) -> str:
    """The value of the header `AUTHORIZATION`."""
    return f"Bearer {token}"


def part_name(batch_id: int, number: int) -> bytes:
    """The ticket for the part of a large batch that the task with this number evaluates."""
    return f"{batch_id}/{number}".encode()
