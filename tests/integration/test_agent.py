"""Agents as processes, with a real broker and stand-ins for detectors: each of them is killed in turn.

The long tests repeat with whole agents what test_agent and test_launcher in unit/deploy show of their parts.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from fraud_ops.observer import DetectorObserver
from fraud_ops.verdicts.actions import next_action
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.patience import patience_ms
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings, HealthSettings
from fraud_rules.deploy.attempt import AttemptPhase, AttemptStatus
from fraud_rules.deploy.deployment_log import append_intent, read_intent_log
from fraud_rules.deploy.intent import SUPERVISOR, Intent, IntentKind, IntentRecord
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.deploy.plan import outlook
from fraud_rules.errors import AttemptUnreachable, Fenced, Superseded
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.kafka.takeovers import MOST_TAKEOVERS
from fraud_rules.kafka.transactional_ids import agent_id
from fraud_rules.kafka.writer import BatchWriter
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.fraud_command import fraud
from tests.support.processes.running_agent import DETECTOR, NAMESPACE, Operations, never_started, stand_in
from tests.support.waiting import until

TOPIC_ROLES = ("detector_attempts", "detector_intents", "detector_progress", "rules", "transactions")

RUNNING, REFUSED, STOPPED = AttemptPhase.RUNNING, AttemptPhase.REFUSED, AttemptPhase.STOPPED


@pytest.fixture
def ops(tmp_path: Path, project: Project, topics: OwnTopics) -> Iterator[Operations]:
    operations = Operations(tmp_path, project, topics)
    yield operations
    operations.end()


def test_run_redeploy_refuse_and_drain(ops: Operations, topics: OwnTopics, tmp_path: Path) -> None:
    for number in range(30):
        (ops.home.attempt(f"past-{number}").path / "detector.log").touch()
    for topic in (topics.names.detector_intents, topics.names.detector_progress):
        garbage = [b"{", b"[" * 100_000, b'{"batchId": 1e999999999}', b"\xff"]
        append_records(topics.kafka, topic, [(DETECTOR.encode(), value) for value in garbage])
    ops.agent()
    first = ops.decide(ops.release(stand_in(tmp_path / "a.whl")))
    running = ops.await_phase(first, RUNNING)
    assert running.log is not None
    assert "detector: running" in Path(running.log).read_text()
    attempts = Path(running.log).parents[1]
    until(lambda: len(list(attempts.iterdir())) <= 20, "a healthy agent prunes old attempts")
    skipped = ops.log.read_text()
    assert all(topic in skipped for topic in (topics.names.detector_intents, topics.names.detector_progress))

    broken = ops.decide(ops.release(stand_in(tmp_path / "broken.whl", source="import nothing_of_this_name")))
    assert "nothing_of_this_name" in (ops.await_phase(broken, REFUSED).message or "")
    misfit = ops.decide(ops.release(stand_in(tmp_path / "misfit.whl", refuses="the checkpoint is another's")))
    refused = ops.await_phase(misfit, REFUSED)
    assert (refused.error_name, refused.message) == ("CheckpointForeign", "the checkpoint is another's")
    swapped = ops.release(stand_in(tmp_path / "swapped.whl"))
    stand_in(tmp_path / "swapped.whl", obeys=False)
    assert ops.await_phase(ops.decide(swapped), REFUSED).error_name == "ReleaseInvalid"
    forge(ops, topics, first)
    assert ops.members(first), "a refused intent leaves the running detector alone"

    second = ops.decide(ops.release(stand_in(tmp_path / "a.whl"), driver_memory="2g"))
    ops.await_phase(second, RUNNING)
    assert ops.await_phase(first, STOPPED).exit_code == 0
    ops.await_gone(first)
    drain = ops.decide(None)
    ops.await_phase(drain, STOPPED)
    ops.await_gone(second)  # its workers too, which have their own process group


def refusal(ops: Operations, epoch: int) -> AttemptStatus | None:
    attempt = ops.seen().of_epoch(epoch)
    return None if attempt is None else attempt.status


def forge(ops: Operations, topics: OwnTopics, running: IntentRecord) -> None:
    """Write intents as a program that has no key: with a path as attempt id, without a signature, with another key."""
    kafka, topic = topics.kafka, topics.names.detector_intents
    outside = running.intent.encode().replace(running.intent.attempt_id.encode(), b"../../../outside")
    append_records(kafka, topic, [(DETECTOR.encode(), outside)])
    for signed in (False, True):
        epoch = read_intent_log(kafka, topic, DETECTOR).epoch
        forged = Intent(DETECTOR, IntentKind.DRAIN, running.intent.attempt_id, epoch, "x", "ann", "x", 0)
        if signed:
            append_intent(kafka, topic, forged, IntentKeys("f" * 64, "the forger"))
        else:
            append_records(kafka, topic, [(DETECTOR.encode(), forged.encode())])
        newest = read_intent_log(kafka, topic, DETECTOR).epoch
        refused = until(partial(refusal, ops, newest), "the agent reports the forged intent")
        assert (refused.phase, refused.error_name) == (REFUSED, "IntentForged")
    assert not list(ops.home.path.parent.parent.glob("outside*"))


@pytest.mark.long
def test_a_slow_start_continues_and_a_start_without_progress_fails(
    ops: Operations, topics: OwnTopics, tmp_path: Path
) -> None:
    """A limit of five seconds: a slow start with progress lasts twice as long."""
    limits, settings = HealthSettings(starting_ms=5_000), replace(DetectorSettings(), topics=topics.names)
    ops.agent(FRAUD_AGENT_HEARTBEAT_MS="200")
    with DetectorObserver(topics.kafka, settings) as watch:

        def verdict() -> Verdict:
            return assess_detector(watch.observe(), limits, now_ms())

        slow = ops.decide(ops.release(never_started(tmp_path / "slow.whl", moves=True)))
        began = ops.await_phase(slow, AttemptPhase.STARTING).at_ms

        def outlived() -> bool:
            found = verdict()
            assert found.health is Health.STARTING, found
            return now_ms() > began + 3 * limits.starting_ms

        until(outlived, "the limit has passed twice")
        assert "restoring state: " in verdict().reasons[0]
        ops.decide(None)
        ops.await_phase(slow, STOPPED)
        stuck = ops.decide(ops.release(never_started(tmp_path / "stuck.whl", moves=False)))
        ops.await_phase(stuck, AttemptPhase.STARTING)
        found = until(lambda: (each := verdict()).health is Health.STALLED and each, "the start counts as stalled")
        assert "restoring state: 0 of 9,000,000 events, last progress" in found.reasons[0]
        seen = watch.observe()
        step = next_action(seen, found, outlook(seen.intents, seen.deployment, now_ms()), now_ms())
        assert step.release is not None
        ops.decide(step.release, requested_by=SUPERVISOR, reason=step.reason)
        failed = ops.await_phase(stuck, AttemptPhase.FAILED)
        assert (failed.error_name, "restoring state" in (failed.message or "")) == ("Stalled", True)
        assert patience_ms(limits.starting_ms, watch.observe(), now_ms()) == 2 * limits.starting_ms


@pytest.mark.long
def test_the_next_agent_adopts_the_detector_of_a_dead_agent(ops: Operations, tmp_path: Path) -> None:
    agent = ops.agent()
    record = ops.decide(ops.release(stand_in(tmp_path / "a.whl")))
    ops.await_phase(record, RUNNING)
    before = {process.pid for process in ops.members(record)}
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    first = ops.seen().agent
    assert first is not None
    ops.agent()
    until(lambda: (seen := ops.seen().agent) is not None and seen[1].agent != first[1].agent, "its successor reports")
    assert ops.await_phase(record, RUNNING).agent != first[1].agent
    assert {process.pid for process in ops.members(record)} == before
    ops.decide(None)
    assert ops.await_phase(record, STOPPED).exit_code == 0, "the agent knows the exit code of another agent's child"


@pytest.mark.parametrize(
    "whom", [*(pytest.param(each, marks=pytest.mark.long) for each in ("driver", "starter")), "both"]
)
def test_a_death_is_reported_and_no_process_remains(whom: str, ops: Operations, tmp_path: Path) -> None:
    ops.agent()
    record = ops.decide(ops.release(stand_in(tmp_path / "a.whl")))
    ops.await_phase(record, RUNNING)
    for process in ops.members(record):
        is_starter = "fraud_rules.deploy.agent.starter" in process.cmdline()
        if (is_starter and whom != "driver") or ("detector" in process.cmdline() and whom != "starter"):
            process.kill()
    if whom == "starter":
        ops.decide(None)  # the driver continues: the agent finds it, and asks it to end for the next intent
    ended = ops.await_phase(record, AttemptPhase.FAILED, AttemptPhase.LOST)
    assert ended.exit_code == (-signal.SIGKILL if whom == "driver" else None)
    ops.await_gone(record)


@pytest.mark.long
def test_an_agent_on_another_machine_takes_over_and_fences_this_one(ops: Operations, tmp_path: Path) -> None:
    first = ops.agent()
    record = ops.decide(ops.release(stand_in(tmp_path / "a.whl")))
    ops.await_phase(record, RUNNING)
    ops.agent(home=tmp_path / "elsewhere")
    assert ops.await_end(first) == Fenced.exit_code
    assert not ops.members(record), "it ends the detector that it does not control any more"
    ops.await_phase(record, AttemptPhase.LOST)


def continued(ops: Operations) -> int:
    return ops.log.read_text().count("so this one continues")


def reported_ms(ops: Operations) -> int:
    agent = ops.seen().agent
    return 0 if agent is None else agent[0]


@pytest.mark.long
def test_an_agent_continues_after_a_fence_and_ends_if_one_with_other_topics_takes_over_again_and_again(
    ops: Operations, topics: OwnTopics, tmp_path: Path
) -> None:
    """The broker also fences an agent that was suspended in a transaction for too long. Then no other agent reports."""
    agent = ops.agent(FRAUD_AGENT_HEARTBEAT_MS="500")
    record = ops.decide(ops.release(stand_in(tmp_path / "a.whl")))
    ops.await_phase(record, RUNNING)
    before = {process.pid for process in ops.members(record)}
    for takeover in range(1, MOST_TAKEOVERS):
        BatchWriter(topics.kafka, agent_id(DETECTOR)).open()
        until(partial(lambda expected: continued(ops) == expected, takeover), "the agent continues")
        until(partial(lambda since_ms: reported_ms(ops) > since_ms, now_ms()), "it reports again")
    assert {process.pid for process in ops.members(record)} == before, "the detector was not touched"
    ops.decide(None)
    assert ops.await_phase(record, STOPPED).exit_code == 0
    BatchWriter(topics.kafka, agent_id(DETECTOR)).open()
    assert ops.await_end(agent) == Fenced.exit_code
    assert "reports to other topics" in ops.log.read_text()


def test_two_agents_never_work_in_one_home(ops: Operations) -> None:
    ops.agent()
    until(lambda: ops.seen().agent, "it reports")
    assert ops.await_end(ops.agent()) == AttemptUnreachable.exit_code


@pytest.mark.long
def test_agents_in_containers_see_no_processes_of_each_other(ops: Operations, tmp_path: Path) -> None:
    """The agent runs in one PID namespace, the other agent in another."""
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to make PID namespaces")
    container = ops.agent(within=[*NAMESPACE, "sh", "-c", '"$@" & wait; exec sleep 600', "sh"])
    record = ops.decide(ops.release(stand_in(tmp_path / "a.whl")))
    ops.await_phase(record, RUNNING)
    inside = psutil.Process(container.pid).children(recursive=True)
    next(each for each in inside if each.cmdline()[1:5] == ["-m", "fraud_rules.cli", "detector", "agent"]).kill()
    other = ops.agent(within=NAMESPACE)
    assert ops.await_end(other) == AttemptUnreachable.exit_code, (
        "it learns from the files that the detector runs in another namespace"
    )
    container.kill()
    container.wait()
    ops.agent(within=NAMESPACE)
    ops.await_phase(record, AttemptPhase.LOST)


def test_the_command_line_writes_intents_and_reports_attempts(
    ops: Operations, topics: OwnTopics, tmp_path: Path
) -> None:
    env = {**topics.environment, "FRAUD_HOME": ops.environment["FRAUD_HOME"], "FRAUD_INTENT_KEYS": str(ops.keys)}
    assert fraud("status", "--agent", env=env).exit_code == 1
    ops.agent("--drain-on-exit")
    wheel = str(stand_in(tmp_path / "a.whl"))
    place = [f"--wheel={wheel}", "--wait=60"]
    ended = fraud("detector", "deploy", "--reason=try", *place, env=env)
    assert (ended.exit_code, "RUNNING" in ended.out) == (0, True), ended
    status = json.loads(fraud("status", "--agent", "--json", env=env).out)
    assert [attempt["phase"] for attempt in status["attempts"]] == ["RUNNING"]
    stand_in(Path(wheel), refuses="no")
    ended = fraud("detector", "deploy", "--reason=worse", *place, env=env)
    assert (ended.exit_code, ended.err) == (1, "REFUSED: CheckpointForeign no")
    assert fraud("detector", "drain", "--reason=enough", "--wait=60", env=env).exit_code == 0
    assert "STOPPED" in fraud("status", "--agent", env=env).out
    ended = fraud("detector", "heartbeat", env=env)
    assert (ended.exit_code, "no supervisor has ever checked" in ended.out) == (1, True)


def test_one_of_two_simultaneous_intents_is_void(ops: Operations, tmp_path: Path) -> None:
    release = ops.release(stand_in(tmp_path / "a.whl"))
    ops.decide(release)
    with pytest.raises(Superseded):
        ops.decide(release, after=-1)
