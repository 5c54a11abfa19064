"""Runs the demo: brings everything up, sends traffic, shows what comes of it, judges the run, and stops all of it.

Every run has a broker home and a checkpoint of its own under var/demo, made anew, so that a run checks itself and
nothing else. What an earlier demo left running, however it ended, is stopped first.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fraud_rules.cli.configured import Configured
from fraud_rules.cli.interrupts import interrupts_set
from fraud_rules.cli.rules import write as write_rules
from fraud_rules.demo.detector import DetectorProcess
from fraud_rules.demo.screen import Screen, Sending, open_screen, status_line, summary
from fraud_rules.demo.sender import Sender
from fraud_rules.demo.verdict import Published, Traffic, Verdict, judge
from fraud_rules.demo.watch import Watch
from fraud_rules.errors import DetectorFailed
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import CONTROLLER_PORT_VARIABLE, PORT_VARIABLE, Broker
from fraud_rules.kafka.consume import read_topic, topic_ends
from fraud_rules.kafka.declared import load_topics
from fraud_rules.kafka.recorder import record_run
from fraud_rules.project import port_setting
from fraud_rules.replay import decode_exactly, replay, replay_recording
from fraud_rules.rule_apply import judge as judge_rules
from fraud_rules.rule_apply import plan as plan_rules
from fraud_rules.ruleset import RuleSet
from fraud_rules.traffic import TrafficSettings

INTERRUPTED = 130

_START_S = 600.0
_DRAIN_S = 120.0
_FRAME_S = 0.25
_RESTARTS = 3


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`traffic.seconds` None runs until Ctrl-C; otherwise the run ends by itself and is judged."""

    traffic: TrafficSettings


@dataclass(frozen=True, slots=True)
class Places:
    """Where a demo keeps things; everything but the log is made anew by each."""

    home: Path
    log: Path

    @property
    def checkpoint(self) -> Path:
        """The detector's checkpoint."""
        return self.home / "checkpoint"

    @property
    def recording(self) -> Path:
        """What `fraud replay` recomputes the run from."""
        return self.home / "recording.json"


def places_of(context: Configured) -> Places:
    """The demo's places in a project."""
    return Places(context.project.var / "demo", context.project.var / "log" / "detector.log")


def stop_left_over(context: Configured) -> list[str]:
    """Stop what an earlier demo left running; what that was."""
    places, broker = places_of(context), _broker(context)
    stopped = {
        "detector": _detector(context, broker).stop_left_over(),
        "broker": places.home.is_dir() and broker.stop(),
    }
    return [name for name, was_running in stopped.items() if was_running]


def run_demo(options: DemoOptions, context: Configured) -> int:
    """The exit code: 0 when the run was right, or ended by Ctrl-C with no end set; 1 when it was wrong."""
    stop = threading.Event()
    with interrupts_set(stop), ExitStack() as stack:
        demo = _Demo(options, context, stop, stack)
        if not demo.bring_up():
            return INTERRUPTED
        demo.run()
        if stop.is_set():
            demo.say_goodbye()
            return 0 if options.traffic.seconds is None else INTERRUPTED
        return 0 if demo.judge().right else 1


class _Demo:
    """One run. What is started is on the stack, to be stopped in reverse."""

    def __init__(self, options: DemoOptions, context: Configured, stop: threading.Event, stack: ExitStack) -> None:
        self._options = options
        self._context = context
        self._stop = stop
        self._stack = stack
        self._console = Console(highlight=False)
        self._places = places_of(context)
        self._broker = _broker(context)
        self._detector = _detector(context, self._broker)
        self._sender = Sender(self._broker.kafka, context.settings.topics.transactions, options.traffic)
        self._watch = Watch(self._broker.kafka, context.settings, self._sender.planted)
        self._restarts = 0

    def bring_up(self) -> bool:
        """Start everything, up to live rules; False when interrupted."""
        for name in stop_left_over(self._context):
            self._say(f"stopped the {name} of an earlier demo")
        shutil.rmtree(self._places.home, ignore_errors=True)
        self._places.home.mkdir(parents=True)
        began_s = time.monotonic()
        self._stack.callback(self._broker.stop)
        self._broker.start()
        self._say(f"broker at {self._broker.bootstrap} ({time.monotonic() - began_s:.0f} s)")
        declared = load_topics(self._context.project.config / "topics.yaml")
        topic_admin.apply(self._broker.kafka, declared)
        rules = self._apply_seed_rules()
        self._say(f"{len(declared)} topics, {rules} seed rules of {self._context.project.config / 'rules'}")
        self._compile()
        self._stack.callback(self._detector.stop)
        self._detector.start()
        self._say("starting the detector (20 s where nothing else runs)")
        self._watch.start()
        self._stack.callback(self._watch.stop)
        live = self._watch.await_seen(lambda seen: seen.rules_live >= rules, _START_S, self._goes_on)
        if not live and not self._stop.is_set():
            raise DetectorFailed(f"the seed rules were not live within {_START_S:g} s (log: {self._places.log})")
        if live:
            self._say(f"detector ready, rules live ({time.monotonic() - began_s:.0f} s); its log: {self._places.log}")
        return live

    def run(self) -> None:
        """Send the traffic and show what comes, until it has ended and all of it is judged, or the interrupt."""
        self._stack.callback(self._sender.stop)
        self._sender.start()
        with open_screen() as screen:
            while self._goes_on(screen.note) and not self._sender.ended():
                screen.show(self._watch.seen(), self._sending())
                self._stop.wait(_FRAME_S)
            if not self._stop.is_set():
                self._drain(screen)

    def judge(self) -> Verdict:
        """End the detector, recompute the run from its recording, and say how it was."""
        self._detector.stop()
        self._watch.stop()
        settings = self._context.settings
        recording = record_run(self._broker.kafka, settings)
        recording.write(self._places.recording)
        answer = replay_recording(recording, self._context.schema, settings)
        verdict = judge(self._published(), answer, Traffic(self._sender.sent.records, self._sender.planted))
        self._console.print(summary(verdict, self._watch.seen().latencies_ms))
        self._say(f"recording: {self._places.recording} (fraud replay recomputes it)")
        return verdict

    def say_goodbye(self) -> None:
        """After an interrupt: what there was."""
        self._console.print(status_line(self._watch.seen(), self._sending()))
        self._say("stopping everything this demo started")

    def _apply_seed_rules(self) -> int:
        limits, schema = self._context.settings.limits, self._context.schema
        judged = judge_rules([self._context.project.config / "rules"], schema, limits)
        applied = plan_rules(judged, RuleSet(), None)
        return len(write_rules(self._context, self._broker.kafka, applied))

    def _compile(self) -> None:
        """Make the machine code of the kernel, which the detector's workers then find, once and not in each of them."""
        began_s = time.monotonic()
        self._say("compiling the window kernel (half a minute, the first time only)")
        replay(_SMALL, self._context.schema, self._context.settings)
        self._say(f"kernel ready ({time.monotonic() - began_s:.0f} s)")

    def _goes_on(self, note: Callable[[str], None] | None = None) -> bool:
        """False once interrupted. Starts a detector again that was killed or fell over; raises when it gave up."""
        code = self._detector.exit_code()
        if code is not None and not self._stop.is_set():
            self._restarts += 1
            if (code >= 0 and code != DetectorFailed.exit_code) or self._restarts > _RESTARTS:
                raise self._detector.failure()
            why = f"was killed (signal {-code})" if code < 0 else "fell over"
            (note or self._say)(f"the detector {why}: starting it again, it goes on where it was")
            self._detector.start()
        return not self._stop.is_set()

    def _drain(self, screen: Screen) -> None:
        """Wait until the detector has judged everything sent."""
        self._sender.stop()
        ends = topic_ends(self._broker.kafka, self._context.settings.topics.transactions)

        def check() -> bool:
            screen.show(self._watch.seen(), self._sending())
            return self._goes_on(screen.note)

        judged_all = self._watch.await_seen(
            lambda seen: all(seen.judged.get(partition, 0) >= end for partition, end in ends.items()), _DRAIN_S, check
        )
        if not judged_all and not self._stop.is_set():
            raise DetectorFailed(f"the detector has not judged all traffic within {_DRAIN_S:g} s after its end")

    def _published(self) -> Published:
        topics = self._context.settings.topics

        def decoded(topic: str) -> list[dict[str, object]]:
            return [decode_exactly(value) for value in self._values(topic)]

        return Published(
            alerts=decoded(topics.alerts),
            shadow_alerts=decoded(topics.shadow_alerts),
            late=decoded(topics.late_transactions),
            quarantined=len(self._values(topics.quarantine)),
        )

    def _values(self, topic: str) -> list[bytes]:
        records = read_topic(self._broker.kafka, topic)
        return [record.value or b"" for partition in sorted(records) for record in records[partition]]

    def _sending(self) -> Sending:
        return self._sender.sending()

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]demo[/dim]  {text}", soft_wrap=True)


_SMALL = {
    "steps": [
        {
            "at": 0,
            "rule": {
                "ruleId": 1,
                "ruleState": "ACTIVE",
                "groupingKeyNames": ["payeeId"],
                "aggregatorFunctionType": "COUNT",
                "limitOperatorType": ">",
                "limit": 0,
                "windowMinutes": 1,
            },
        },
        {"at": 1, "tx": "1,0,1,1,CSH,1"},
    ]
}


def _broker(context: Configured) -> Broker:
    port = port_setting(PORT_VARIABLE, 9092)
    controller_port = port_setting(CONTROLLER_PORT_VARIABLE, port + 1 if port < 65_535 else port - 1)
    return Broker(places_of(context).home / "broker", port, controller_port, context.project)


def _detector(context: Configured, broker: Broker) -> DetectorProcess:
    places = places_of(context)
    return DetectorProcess(broker.bootstrap, places.checkpoint, places.log, places.home / "detector.json")
