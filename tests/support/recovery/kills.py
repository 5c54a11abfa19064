"""The experiment: kill and restart one detector under load, repeatedly, at moments drawn from a seed.

A moment is a phase of a batch, visible in the topics, plus a delay drawn from the seed.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from fraud_rules.errors import BrokerUnavailable, DetectorFailed, DetectorStopped, Fenced
from fraud_rules.kafka.broker import Broker
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.processes.signals import send_signal
from tests.support.recovery.load import Load
from tests.support.recovery.watch import Watch
from tests.support.waiting import LOOK_S, MOMENT_S, until

RECOVERED_S = 240.0

RESTARTED = frozenset({-signal.SIGKILL, 1, BrokerUnavailable.exit_code, DetectorFailed.exit_code, Fenced.exit_code})
"""Exit codes after which a supervisor restarts the detector. Any other code (a refused checkpoint) is a failure."""


class Kill(StrEnum):
    """The processes to kill."""

    DRIVER = "driver"  # the Python process: its JVM ends by itself
    JVM = "jvm"
    ALL = "driver, jvm and workers"
    WORKER = "python worker"
    WORKERS = "python workers"
    BROKER = "broker"


_FIRST = ((Kill.DRIVER, Kill.JVM, Kill.ALL), (Kill.WORKER, Kill.WORKERS), (Kill.BROKER,))
"""The first three kills have one of each."""
_AGAIN = (Kill.WORKER, Kill.WORKER, Kill.WORKERS, Kill.BROKER)
"""The kinds that ten kills have more often than once."""


class Moment(StrEnum):
    """The phase of a batch at which to kill; a delay of up to `_DELAYS_S` follows. With its delay, COMMITTED also
    covers the evaluation of the next batch."""

    SENT = "sent"
    COMMITTED = "committed"


_DELAYS_S = {Moment.SENT: 0.03, Moment.COMMITTED: 0.3}


@dataclass(frozen=True)
class Plan:
    """One kill."""

    kill: Kill
    moment: Moment
    delay_s: float


def plans(seed: int, count: int) -> list[Plan]:
    """Plan `count` kills in an order drawn from the seed. The first three kill a driver, a worker and a broker, and the
    first six have one of each kind."""
    draw, kinds = random.Random(seed), list[Kill]()
    while len(kinds) < count:
        first = [draw.choice(each) for each in draw.sample(_FIRST, len(_FIRST))]
        others = [each for each in draw.sample(list(Kill), len(Kill)) if each not in first]
        kinds += [*first, *others, *draw.sample(_AGAIN, len(_AGAIN))]
    moments = [draw.choice(list(Moment)) for _ in range(count)]
    return [
        Plan(kind, moment, draw.uniform(0, _DELAYS_S[moment])) for kind, moment in zip(kinds, moments, strict=False)
    ]


@dataclass
class Story:
    """The course of a run: kills by phase, exit codes, and the seconds from a kill to the next batch by kind."""

    hits: Counter[str] = field(default_factory=Counter)
    exits: Counter[int] = field(default_factory=Counter)
    recovered_s: dict[str, list[float]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield f"a batch was {dict(self.hits)}; the detector ended with {dict(self.exits)}"
        for kind, seconds in sorted(self.recovered_s.items()):
            ordered = sorted(seconds)
            median_s, worst_s = ordered[len(ordered) // 2], ordered[-1]
            yield f"  {len(ordered)} x {kind}: next batch after {median_s:.1f} s (median), {worst_s:.1f} s at most"


class Experiment:
    """Kills and restarts a detector. It does not check results."""

    def __init__(self, installation: Installation, broker: Broker, watch: Watch, load: Load) -> None:
        self._installation = installation
        self._broker = broker
        self._watch = watch
        self._load = load
        self._starts = [RunningDetector(installation)]
        self.story = Story()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for detector in self._starts:
            detector.kill()

    def run(self, planned: Sequence[Plan], rows_a_kill: int) -> None:
        """Execute the plans. Between two kills the detector finishes some batches."""
        for plan in planned:
            self._load.allow(rows_a_kill)
            self._await_batches(2)
            self._await_moment(plan.moment)
            time.sleep(plan.delay_s)  # drawn from the seed: part of the experiment
            self.story.hits[self._watch.phase()] += 1
            killed_at = time.monotonic()
            self._kill(plan.kill)
            self._await_batches(1)
            self.story.recovered_s.setdefault(plan.kill.value, []).append(time.monotonic() - killed_at)

    def stop_by_rule(self) -> None:
        """Write CLEAR_STATE_ALL_STOP under load: the detector ends, stays stopped, and is then started manually."""
        self._load.write_rule(b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL_STOP"}')
        self._until(self._has_stopped, "the stop in the rule log stops it")
        self._start()
        self._until(self._has_stopped, "it stays stopped")
        self._start("--resume")
        self._await_batches(1)

    def drain(self, all_read: Callable[[], bool]) -> None:
        """Wait until the detector has read every record, then drain it."""
        self._until(all_read, "everything is read")
        assert self._detector.stop() == 0, self._detector.said()[-2000:]

    def _has_stopped(self) -> bool:
        return self._detector.exit_code == DetectorStopped.exit_code

    def _kill(self, kind: Kill) -> None:
        match kind:
            case Kill.DRIVER:
                self._detector.process.kill()
            case Kill.JVM:
                send_signal([jvm] if (jvm := self._detector.jvm()) else [], signal.SIGKILL)
            case Kill.ALL:
                send_signal(self._detector.members(), signal.SIGKILL)
            case Kill.WORKER:
                send_signal(self._detector.python_workers()[:1], signal.SIGKILL)
            case Kill.WORKERS:
                send_signal(self._detector.python_workers(), signal.SIGKILL)
            case Kill.BROKER:
                self._broker.kill()
                self._broker.start(RECOVERED_S)

    def _await_batches(self, count: int) -> None:
        wanted = self._watch.batch_id + count
        self._until(lambda: self._watch.batch_id >= wanted, f"batch {wanted} is written")

    def _await_moment(self, moment: Moment) -> None:
        begun = self._watch.newest(moment)
        self._until(lambda: self._watch.newest(moment) > begun, f"a batch is {moment}", MOMENT_S)

    def _until(self, condition: Callable[[], bool], what: str, every_s: float = LOOK_S) -> None:
        """Wait for a condition. Restart the detector whenever it has ended, as a supervisor would."""

        def holds() -> bool:
            self._supervise()
            return condition()

        until(holds, what, RECOVERED_S, every_s)

    def _supervise(self) -> None:
        code = self._detector.exit_code
        if code is None or code == DetectorStopped.exit_code:
            return
        self.story.exits[code] += 1
        assert code in RESTARTED, f"the detector ended with {code}: {self._detector.said()[-3000:]}"
        self._start()

    def _start(self, *flags: str) -> None:
        """Start a detector at once, even if processes of the killed one, such as its JVM, still run."""
        self._starts.append(RunningDetector(self._installation, *flags))

    @property
    def _detector(self) -> RunningDetector:
        return self._starts[-1]
