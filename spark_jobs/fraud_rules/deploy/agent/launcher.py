"""The interface through which the agent starts detectors, and finds them again."""

from __future__ import annotations

from typing import Protocol

from fraud_rules.deploy.agent.home import AttemptEnd, AttemptFolder, AttemptOrder
from fraud_rules.deploy.intent import IntentRecord


class ReleaseCheck(Protocol):
    """A running check of a release."""

    def poll(self) -> int | None:
        """The exit code, 0 for a valid release. None while the check runs."""

    def output(self) -> str:
        """The output of the check."""

    def cpu_s(self) -> float:
        """The CPU time of all its processes, in seconds."""

    def cancel(self) -> None:
        """Kill the check."""


class LocalAttempt(Protocol):
    """A started attempt."""

    @property
    def order(self) -> AttemptOrder: ...

    @property
    def folder(self) -> AttemptFolder: ...

    def end(self) -> AttemptEnd | None:
        """The end of the attempt; None while any of its processes runs."""

    def drain(self) -> None:
        """Request the end of the detector after its current batch."""

    def cpu_s(self) -> float:
        """The CPU time of all its processes, in seconds."""

    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped one of its processes, so that it cannot react to a drain."""

    def kill(self) -> None:
        """Kill all processes of the attempt. Return once they have ended, or after some seconds."""

    def proceed(self, now_ms: int) -> LocalAttempt:
        """Let a held attempt proceed with its start. This decision is durable before the process continues."""


class Launcher(Protocol):
    """Starts attempts, and finds the attempts that an earlier agent started."""

    def validate(self, record: IntentRecord) -> None:
        """Raise ReleaseNotAllowed, ConfigError or ReleaseInvalid: the errors that can be found without a process."""

    def check(self, record: IntentRecord) -> ReleaseCheck:
        """Start the check of a release. The check changes nothing."""

    def start(self, record: IntentRecord, now_ms: int, *, held: bool = False) -> LocalAttempt:
        """Start a detached attempt. If it is `held`, it waits for `proceed`.

        The order is durable before the process starts, so that the next agent can find the attempt.
        """

    def newest(self) -> LocalAttempt | None:
        """Find the newest attempt that is not held; it may have ended. Kill and delete held attempts.

        Raises AttemptUnreachable if the attempt runs where this agent cannot end it.
        """
