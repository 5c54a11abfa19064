"""Every command that README, docs and `make help` name, run in a fresh clone, at least to its first output."""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import typer

from fraud_rules.cli import app
from fraud_rules.model.day import DAY_MS
from tests.support.documented import DocumentedCommand, bare_environment, documented, fresh_clone
from tests.support.places import ROOT
from tests.support.ports import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

_ENDS_S = 180.0
_SPEAKS_S = 180.0


_PAYMENT = {"transactionId": 1, "eventTime": 20_000 * DAY_MS, "payeeId": 1, "beneficiaryId": 2, "paymentType": "CSH"}


@dataclass(frozen=True)
class Run:
    """How a command runs. It ends by itself with one of `codes`, or is interrupted once its output has `says`.
    A `reason` explains why it is not run. Only the long run has `long` commands: they start Spark or Airflow.
    """

    pattern: str
    codes: tuple[int, ...] = (0,)
    says: str = ""
    reason: str = ""


RUNS = (
    Run(r"make (help|setup|format|lint)"),
    Run(r"make (wheel|sbom|release-files)"),
    Run(r"make changelog-check", codes=(0, 2)),  # between releases, the changes are unreleased
    Run(r"make release", reason="runs all tests, also this one; its other steps are commands of their own"),
    Run(r'make bench ARGS="--list"'),
    Run(r"make bench ARGS=.*", reason="measures for hours; test_bench and test_bench_against have its options"),
    Run(r"make bench", says=r"backlog_rules1 \.\.\."),
    Run(r"make (oracle-long|fuzz)", says=r"collected \d+ items"),
    Run(r"make (chaos|conformance|test-long)", says=r"collected \d+ items"),
    Run(r"make (check|types|ui-check)", reason="make test runs it before any test"),
    Run(r"make test", reason="this test is a part of it"),
    Run(r"make compose-check.*", reason="starts containers as root for the larger part of an hour"),
    Run(r"make hosts-check", reason="makes namespaces as root, and takes a quarter of an hour; it is a test itself"),
    Run(r"make ui", reason="writes what is committed, from npm's registry; make ui-check compares it"),
    Run(r"make site", reason="installs mkdocs; test_site compares its nav with the pages"),
    Run(r"make schemas", reason="writes what is committed; test_output_schemas compares it"),
    Run(r"make (jars|lock)", reason="fetches everything again and writes what is committed"),
    Run(r"bin/bootstrap.*", reason="the clone's environment is made by it"),
    Run(r"(docker|cp \.env\.example|mvn|java) .*", reason="needs Docker, or the Flink demo's sources"),
    Run(r"(airflow (connections|dags [lr]|standalone)|fraud detector agent >).*", reason="test_install_page runs it"),
    Run(r"airflow db migrate", reason="needs an installation of Airflow; test_supervision creates a new database"),
    Run(r"airflow dags unpause .*", reason="needs Airflow's database; test_dags compares its names with the DAGs"),
    Run(r"airflow db clean .*", reason="needs Airflow's database; test_fresh_start runs it on a copy"),
    Run(r"airflow backfill .*", reason="needs Airflow's database; tests/integration/test_reevaluation.py runs days"),
    Run(
        r"airflow rotate-fernet-key", reason="needs the database of Airflow; test_secret_rotation rotates a connection"
    ),
    Run(r"fraud create .*", reason="the folder is the reader's; test_wheels runs it"),
    Run(r"fraud (--help|archive import .*)"),
    Run(r"python -m fraud_rules\.(cli|replay\.kernel_cache)", codes=(0, 2)),
    Run(r"echo '\{\"steps\".*fraud streams replay -"),
    Run(r"fraud rules check .*"),
    Run(r"fraud whatif draft\.yaml --days 30"),
    Run(r"fraud whatif .*"),
    Run(r"fraud kafka broker start"),
    Run(r"fraud kafka topics (apply|plan|print|check).*"),
    Run(r"fraud kafka topics register", reason="needs a schema registry; test_schema_registry has one"),
    Run(r"fraud init .*", codes=(7,)),  # the topic is the reader's; test_init runs it
    Run(r"fraud kafka acls print"),
    Run(r"fraud kafka acls users( --only detector)?", codes=(3,)),  # the passwords are the reader's
    Run(r"fraud kafka acls apply( .*)?", codes=(7,)),  # the broker of `fraud kafka broker start` has no authorizer
    Run(r"fraud rules (save .* --direct|list --direct)"),
    Run(r"fraud (lists|maps|rules) (list|export.*)", codes=(0, 2)),
    Run(r"fraud (lists|maps|rules) show .*", codes=(3,)),  # without a control plane
    Run(r"fraud lists save lists\.yaml --dry-run", codes=(0, 2)),  # the file of the export, without lists
    Run(r"fraud (erase|labels).*", codes=(2, 3)),  # without a control plane
    Run(r"fraud (rules|lists|maps) (save|set|add|remove|delete|move)( .*)?", codes=(2, 3)),  # without a control plane
    Run(r"fraud rules restore .*", codes=(2, 3)),  # the archive is the reader's
    Run(r"fraud (alerts list( --corrections)?|quarantine .*)"),
    Run(r"fraud (prove|verify|why)( .*)?", codes=(2, 3, 75)),  # the alert, the file and the key are the reader's
    Run(r"fraud streams load( .*)?", codes=(0, 2)),
    Run(r"fraud status", codes=(0, 1)),
    Run(r"fraud detector heartbeat.*", codes=(0, 1)),
    Run(r"fraud store (drift|outbox|verify.*)", codes=(0, 37, 39)),
    Run(r"fraud control-plane serve.*", codes=(3,)),  # the key of tickets is the reader's
    Run(r"fraud store publish", says="publishing"),
    Run(r"fraud store reread", codes=(36, 37)),  # the topic was not recreated
    # without the words that they ask for, or without a token
    Run(r"fraud (login|tokens|approvals|alerts).*", codes=(2, 3)),
    Run(r"fraud streams record .*", codes=(0, 1)),
    # named without the words that they ask for
    Run(r"fraud (streams replay|archive reevaluate|detector (drain|deploy( --[a-z-]+)?))", codes=(1, 2)),
    Run(r"fraud archive reevaluate 2.*", codes=(0, 25, 26, 27)),
    Run(r"fraud archive (run|warm-up)( --json)?"),
    Run(r"fraud detector agent", says=r"agent"),
    Run(r"fraud detector run( --bootstrap .*)?", says=r"detector"),
    Run(r"python spark_jobs/detector\.py .*", says=r"detector: running"),
    Run(r"python examples/payment_gate\.py .*", says=r"gate: running"),
    Run(r"fraud detector rebuild( --check)?", codes=(0, 1, 9, 11, 18)),
    Run(r"make demo.*", says=r"broker"),
    Run(r"make stop"),
    Run(r"make (clean|distclean)"),
)


def run_of(text: str) -> Run | None:
    return next((run for run in RUNS if re.fullmatch(run.pattern, text, re.DOTALL)), None)


def in_order() -> list[DocumentedCommand]:
    """The commands to run, in the order of the table: the broker before what needs it."""
    found = documented(ROOT).values()
    return [each for run in RUNS if not run.reason for each in found if run_of(each.text) is run]


@dataclass
class Clone:
    """A fresh clone and its processes."""

    folder: Path
    environ: dict[str, str]

    def shell(self, text: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def processes(self) -> list[psutil.Process]:
        """The processes that run on the clone's files."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and str(self.folder) in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    folder = fresh_clone(ROOT, tmp_path_factory.mktemp("clone"))
    readme = (folder / "README.md").read_text(encoding="utf-8")
    (rule,) = re.findall(r"^```yaml\n(# rapid-transfers.yaml\n.*?)^```", readme, re.MULTILINE | re.DOTALL)
    (folder / "rapid-transfers.yaml").write_text(rule)
    (folder / "draft.yaml").write_text(rule)
    (folder / "sample.jsonl").write_text(json.dumps(_PAYMENT | {"paymentAmount": 10.5}) + "\n")
    _history(folder / "history")
    broker, controller, airflow = free_ports(3)
    ports = {"FRAUD_BROKER_PORT": broker, "FRAUD_BROKER_CONTROLLER_PORT": controller, "FRAUD_AIRFLOW_PORT": airflow}
    made = Clone(folder, bare_environment(folder) | {name: str(port) for name, port in ports.items()})
    yield made
    for process in made.processes():
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _history(folder: Path) -> None:
    """Files of the names that docs/data.md uses."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    pq.write_table(pa.Table.from_pylist([{**_PAYMENT, "paymentAmount": 10.5}]), folder / "2026-09.parquet")
    cells = {**_PAYMENT, "transactionId": 2, "paymentAmount": 1}
    (folder / "2026-10.csv").write_text(",".join(cells) + "\n" + ",".join(map(str, cells.values())) + "\n")


def runnable(text: str, clone: Clone) -> str:
    """Replace the placeholders of a command by values."""
    bootstrap = f"127.0.0.1:{clone.environ['FRAUD_BROKER_PORT']}"
    values = {
        "broker:9092": bootstrap,
        "RULE --days N": "draft.yaml --days 7",
    }
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text


def test_the_table_knows_every_command() -> None:
    found = documented(ROOT)
    assert len(found) > 50
    unknown = [f"{each.page}: {each.text}" for each in found.values() if run_of(each.text) is None]
    assert not unknown, "say in RUNS how these are run, or why not"
    unused = [run.pattern for run in RUNS if not any(run_of(text) is run for text in found)]
    assert not [pattern for pattern in unused if not pattern.startswith("bin/")]


def test_every_word_of_a_command_exists() -> None:
    whole: Any = typer.main.get_command(app)
    commands = [text for text in documented(ROOT) if text.startswith("fraud ")]
    assert [fault for text in commands for fault in _unknown_words(text, whole)] == []


def _unknown_words(text: str, command: Any) -> Iterator[str]:
    for word in shlex.split(re.split(r"&&|\||>", text)[0])[1:]:
        name = word.strip("[]").partition("=")[0]
        if word.startswith("-"):
            known = [option for each in command.params for option in (*each.opts, *each.secondary_opts)]
            if name not in (*known, "--help"):
                yield f"{text}: {command.name} has no {name}"
        else:
            command = getattr(command, "commands", {}).get(name, command)
    if command.name == "fraud" and text != "fraud --help":
        yield f"{text}: no command"


@pytest.mark.long
def test_every_command_has_output_in_a_fresh_clone(clone: Clone) -> None:
    faults = {}
    for command in in_order():
        fault = _fault_of(command, clone)
        if fault is not None:
            faults[f"{command.page}: {command.text}"] = fault
    left = [" ".join(process.cmdline())[:150] for process in clone.processes()]
    assert not faults, json.dumps(faults, indent=1)
    assert not left, left


def _fault_of(command: DocumentedCommand, clone: Clone) -> str | None:
    run = run_of(command.text)
    assert run is not None
    process = clone.shell(runnable(command.text, clone))
    assert process.stdout is not None
    heard = b""
    try:
        heard = _heard(process, run.says)
        if run.says and re.search(run.says.encode(), heard):
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=_ENDS_S)
            return None if b"Traceback" not in heard else heard[-1_500:].decode(errors="replace")
        rest, _ = process.communicate(timeout=_ENDS_S)
        heard += rest
    except subprocess.TimeoutExpired:
        return f"does not end: {heard[-1_500:].decode(errors='replace')}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if run.says or process.returncode not in run.codes or b"Traceback" in heard:
        return f"exit code {process.returncode}: {heard[-1_500:].decode(errors='replace')}"
    return None


def _heard(process: subprocess.Popen[bytes], says: str) -> bytes:
    """Read a process's output until it has `says`, or to its end if `says` is empty."""
    assert process.stdout is not None
    heard, deadline = b"", time.monotonic() + _SPEAKS_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not (says and re.search(says.encode(), heard)):
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(process.args, _SPEAKS_S)
            if selector.select(1.0):
                block = os.read(process.stdout.fileno(), 65_536)
                if not block:
                    break
                heard += block
    return heard
