"""Runs the demo: starts all components, sends traffic, shows the alerts, checks the run, and stops all components.

Airflow's DAGs work as in production: one DAG starts and supervises the detector, another applies the seed rules. A run
first stops the processes that an earlier demo left behind. It then creates a new broker and Airflow in
var/demo, so that its check covers only its own records.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack

from rich.console import Console

from fraud_demo.late_frauds import late_frauds
from fraud_demo.own_rules import own_records
from fraud_demo.published import read_published
from fraud_demo.screen import Screen, Sending, open_screen, status_line, summary
from fraud_demo.sender import Sender
from fraud_demo.site import PASSWORD, DemoPaths, DemoSite
from fraud_demo.start.installation import demo_context, write_installation
from fraud_demo.start.people import DemoPeople, describe_people
from fraud_demo.start.shell import FILE
from fraud_demo.start.steps import StartSteps
from fraud_demo.steering import Steering
from fraud_demo.traffic import TrafficSettings
from fraud_demo.verdict import RunVerdict, SentTraffic, check_run
from fraud_demo.watch import OutputWatch
from fraud_local.users import USER
from fraud_rules.cli.configured import CommandContext
from fraud_rules.codec.rules.apply import rule_files
from fraud_rules.errors import DetectorFailed
from fraud_rules.kafka.consume import topic_ends
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.recorder import record_run
from fraud_rules.model.day import Day
from fraud_rules.replay.replay import replay, replay_recording
from fraud_rules.runtime.interrupts import interrupts_set

INTERRUPTED = 130

_START_S = 600.0
_EVALUATION_S = 120.0
_FRAME_S = 0.25
_LATE_AFTER_S = 20.0  # by then, every key group has a watermark, and the frauds are late


def stop_left_over(context: CommandContext) -> list[str]:
    """Stop the processes that an earlier demo left behind. Return their names."""
    return DemoSite(context).stop_left_over()


def run_demo(traffic: TrafficSettings, context: CommandContext) -> int:
    """Run the demo and return its exit code. If `traffic.seconds` is None, it runs until Ctrl-C, else it ends by itself
    and checks the run.

    The exit code is 0 after a correct run, and after Ctrl-C in a run without a time limit. It is 1 if the check finds
    faults, and INTERRUPTED after Ctrl-C in a run with a time limit or before the rules are live.
    """
    stop = threading.Event()
    with interrupts_set(stop), ExitStack() as stack:
        demo = _Demo(traffic, context, stop, stack)
        if not demo.start():
            return INTERRUPTED
        demo.run()
        if stop.is_set():
            demo.show_summary()
            return 0 if traffic.seconds is None else INTERRUPTED
        return 0 if demo.check_run().right else 1


class _Demo:
    """One run of the demo. `stack` stops the started components in reverse order."""

    def __init__(
        self, traffic: TrafficSettings, context: CommandContext, stop: threading.Event, stack: ExitStack
    ) -> None:
        self._project = context.project
        places = DemoPaths.of(context.project)
        context = demo_context(context, places.installation)
        self._context = context
        self._stop = stop
        self._stack = stack
        self._console = Console(highlight=False)
        self._site = DemoSite(context, places=places)
        self._steps = StartSteps(self._console, self._site.places.step_times)
        self._kafka = self._site.broker.kafka
        topic = context.settings.topics.transactions
        self._sender = Sender(self._kafka, topic, traffic, Steering(self._site.places.steering))
        self._watch = OutputWatch(self._kafka, context.settings, self._sender.planted)

    def start(self) -> bool:
        """Start all components and wait until the rules are live. Return False if interrupted.

        The rules are the seed rules and the demo's own. Raises DetectorFailed if they are not live in time.
        """
        for name in self._site.stop_left_over():
            self._report(f"stopped the {name} of an earlier demo")
        self._steps.run("kernel", "compiling the window kernel", "kernel ready", self._compile)
        self._steps.run("parts", "starting broker, agent and Airflow", "broker, agent and Airflow started", self._parts)
        self._report(f"Airflow at {self._address}")
        self._report(f"fraud rules at {self._site.airflow.site.url}/fraud/control")
        self._report(f"further users, with the password {PASSWORD}: {describe_people()}")
        self._report(f"commands in another terminal: source {FILE}, then for example fraud status")
        people = DemoPeople(self._site.airflow.site.url, PASSWORD, self._report)
        self._stack.callback(people.stop)
        people.start()
        self._watch.start()
        self._stack.callback(self._watch.stop)
        own = own_records()
        append_records(self._kafka, self._context.settings.topics.rules, own)
        rules = sum(1 for _ in rule_files([self._context.project.config / "rules"])) + len(own)

        def is_live() -> bool:
            return self._watch.await_seen(lambda outputs: outputs.rules_live >= rules, _START_S, self._continues)

        doing = "waiting for Airflow's DAGs"
        live = self._steps.run("live", doing, "detector ready, rules live", is_live)
        if not live and not self._stop.is_set():
            raise DetectorFailed(f"the rules were not live within {_START_S:g} s (logs: {self._site.places.logs})")
        if live:
            self._report(f"the agent's log: {self._site.agent.log}")
        return live

    def _parts(self) -> bool:
        self._site.clear()
        write_installation(self._site.places.installation, self._project)
        self._site.start(self._stack, self._report)
        return True

    def run(self) -> None:
        """Send the traffic and show the results until the detector has evaluated all traffic, or until Ctrl-C."""
        self._stack.callback(self._sender.stop)
        self._sender.start()
        planted = False
        self._report(f"late frauds of yesterday follow after {_LATE_AFTER_S:g} s: fraud_archive and")
        self._report("fraud_nightly_reevaluation in Airflow find these frauds, which arrive too late for alerts")
        with open_screen(f"Airflow: {self._address}; also {describe_people()}, password {PASSWORD}") as screen:
            while self._continues() and not self._sender.ended():
                if not planted and self._sending().elapsed_s > _LATE_AFTER_S:
                    self._plant_late_frauds()
                    planted = True
                screen.show(self._watch.snapshot(), self._sending())
                self._stop.wait(_FRAME_S)
            if not self._stop.is_set():
                self._wait_for_evaluation(screen)

    def check_run(self) -> RunVerdict:
        """Drain the detector, recompute the run from its recording, and show the verdict."""
        self._site.drain()
        self._watch.stop()
        settings, places = self._context.settings, self._site.places
        recording = record_run(self._kafka, settings, self._context.schema)
        recording.write(places.recording)
        answer = replay_recording(recording, self._context.schema, settings)
        published = read_published(self._kafka, settings.topics)
        verdict = check_run(published, answer, SentTraffic(self._sender.sent.records, self._sender.planted_whole))
        self._console.print(summary(verdict, self._watch.snapshot().latencies_ms))
        self._report(f"recording: {places.recording} (fraud streams replay recomputes it)")
        return verdict

    def _plant_late_frauds(self) -> None:
        """Send frauds of yesterday, which arrive too late for alerts. The nightly re-evaluation adds their alerts."""
        records = [(b"late", text) for _, text in late_frauds(Day.today().plus(-1))]
        append_records(self._kafka, self._context.settings.topics.transactions, records)

    def show_summary(self) -> None:
        """Show a summary after an interrupt."""
        self._console.print(status_line(self._watch.snapshot(), self._sending()))
        self._report("stopping all processes of this demo")

    def _compile(self) -> bool:
        """Compile the kernel once, so that the detector's workers find the machine code in the cache."""
        replay(_SMALL, self._context.schema, self._context.settings)
        return True

    @property
    def _address(self) -> str:
        return f"{self._site.airflow.site.url} ({USER} / {PASSWORD})"

    def _continues(self) -> bool:
        """Return False after an interrupt. Raise if the agent or Airflow has ended. Airflow supervises the detector."""
        self._site.check()
        return not self._stop.is_set()

    def _wait_for_evaluation(self, screen: Screen) -> None:
        """Wait until the detector has evaluated all sent records."""
        self._sender.stop()
        ends = topic_ends(self._kafka, self._context.settings.topics.transactions)

        def check() -> bool:
            screen.show(self._watch.snapshot(), self._sending())
            return self._continues()

        evaluated_all = self._watch.await_seen(
            lambda outputs: all(outputs.evaluated.get(part, 0) >= end for part, end in ends.items()),
            _EVALUATION_S,
            check,
        )
        if not evaluated_all and not self._stop.is_set():
            raise DetectorFailed(f"the detector has not evaluated all traffic within {_EVALUATION_S:g} s after its end")

    def _sending(self) -> Sending:
        return self._sender.sending()

    def _report(self, text: str) -> None:
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
        {"at": 1_700_000_000_000, "tx": "1,1700000000000,1,1,CSH,1"},
    ]
}
