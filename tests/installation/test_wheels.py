"""The wheels in fresh environments with a plain Airflow: `pytest -m long tests/installation/test_wheels.py`.

Airflow's own constraints file comes from GitHub. FRAUD_AIRFLOW_CONSTRAINTS names a folder with the downloaded files
`constraints-3.11.txt` and so on. Without it, the constraints are what Airflow and its providers install by themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.proof.document import write_file
from tests.support.proofs import proofs_of
from tests.support.wheels import Environment, build_wheels, python, uv

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

AIRFLOW = [
    f"apache-airflow=={version('apache-airflow')}", "apache-airflow-providers-apache-kafka",
    "apache-airflow-providers-apache-spark", "apache-airflow-providers-celery", "apache-airflow-providers-standard",
]  # fmt: skip

DAG_FILE = """
from fraud_rules_airflow.dags import detector, seed_rules, topics
from fraud_rules_airflow.dags.options import DagOptions

options = DagOptions(kafka_conn_id="payments_kafka", owner="risk", tags=["risk"])
detector.create_dag(options)
seed_rules.create_dag(options)
topics.create_dag(options, dag_id="risk_topics", schedule="@daily")
"""

LOAD = """
import importlib, pkgutil, sys
import fraud_rules.cli, fraud_rules.batch.archive.store, fraud_rules.stream.drill  # the command loads those above it
import fraud_control, fraud_ops, fraud_rules_airflow

for package in (fraud_control, fraud_ops, fraud_rules_airflow):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if ".migrations." not in module.name:
            importlib.import_module(module.name)
assert fraud_control.web.extensions.extensions() == {}
assert not {"pyspark", "s3fs", "botocore"} & sys.modules.keys()
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheels, and a folder of an installation."""

    environment: Environment
    home: Path

    def run(self, *command: str, **further: str) -> str:
        variables = {
            "HOME": str(self.home),
            "PATH": f"{self.environment.programs}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "FRAUD_HOME": str(self.home / "fraud"),
            "FRAUD_CACHE_DIR": str(self.home / "cache"),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
            **further,
        }
        done = subprocess.run(command, cwd=self.home, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout[-2_000:]}{done.stderr[-4_000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if uv() is None:
        pytest.skip("there is no uv")
    return [str(path) for path in build_wheels(tmp_path_factory.mktemp("wheels")).values()]


@pytest.fixture(scope="module", params=["3.11", "3.12", "3.13"])
def installed(request: pytest.FixtureRequest, wheels: list[str], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The three wheels in an environment that had a plain Airflow before, as the page docs/install.md describes it."""
    folder = tmp_path_factory.mktemp(f"python-{request.param}")
    home = folder / "home"
    home.mkdir()
    base = python(request.param)
    if base is None:
        pytest.skip(f"there is no Python {request.param}")
    environment = Environment.create(folder / "environment", base)
    environment.install(*AIRFLOW, *constrained(request.param))
    (folder / "constraints.txt").write_text(environment.versions(), encoding="utf-8")
    environment.install(*wheels, "--constraint", str(folder / "constraints.txt"))
    return Installed(environment, home)


def constrained(python: str) -> list[str]:
    folder = os.environ.get("FRAUD_AIRFLOW_CONSTRAINTS")
    return [] if folder is None else ["--constraint", str(Path(folder, f"constraints-{python}.txt"))]


def test_a_plain_airflow_loads_the_provider_the_plugin_and_the_dags(installed: Installed) -> None:
    (installed.home / "dags").mkdir()
    (installed.home / "dags" / "risk.py").write_text(DAG_FILE, encoding="utf-8")
    installed.run("airflow", "db", "migrate")
    assert "fraud-rules-airflow" in installed.run("airflow", "providers", "list")
    assert "fraud_control_plane" in installed.run("airflow", "providers", "hooks", "--output", "plain")
    assert "fraud_rules_airflow.plugin" in installed.run("airflow", "plugins", "--output", "json")
    installed.run("airflow", "dags", "reserialize")
    assert "No data found" in installed.run("airflow", "dags", "list-import-errors")
    listed = installed.run("airflow", "dags", "list", "--columns", "dag_id,owners", "--output", "plain")
    assert {line.split()[0] for line in listed.splitlines() if "risk" in line} == {
        "fraud_detector", "fraud_seed_rules", "risk_topics",
    }  # fmt: skip


def test_a_task_of_a_dag_creates_the_topics_of_the_installation(installed: Installed, broker: Broker) -> None:
    """Airflow runs one task of the DAG file: `airflow dags test` of 3.3.2 fails at the end of a DAG with a deadline."""
    installed.run("fraud", "create", "topics")
    kafka, name = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap}}, f"alerts-{uuid4().hex}"
    variables = {"FRAUD_HOME": str(installed.home / "topics"), "FRAUD_TOPICS_ALERTS": name}
    variables["AIRFLOW_CONN_PAYMENTS_KAFKA"] = json.dumps(kafka)
    installed.run("airflow", "tasks", "test", "risk_topics", "apply", **variables)
    with TopicReader(broker.kafka, name) as reader:
        assert reader.ends()[1] == 0


def test_the_command_works_outside_the_checkout(installed: Installed) -> None:
    """The replay compiles the kernel on this Python, and the check of the proof needs neither kernel nor Kafka."""
    installed.run("fraud", "create", "fraud")
    assert "control plane" in installed.run("fraud", "control-plane", "serve", "--help")
    recording, schema = a_recording(), TransactionSchema.load(installed.home / "fraud" / "config" / "schema.yaml")
    (installed.home / "recording.json").write_text(json.dumps(recording), encoding="utf-8")
    (proof,) = proofs_of(recording, schema)
    (installed.home / "proof.zip").write_bytes(write_file(proof))
    assert len(json.loads(installed.run("fraud", "streams", "replay", "recording.json"))["alerts"]) == 1
    installed.run("fraud", "verify", "proof.zip")


def test_airflow_and_the_control_plane_need_neither_spark_nor_a_client_of_s3(installed: Installed) -> None:
    (installed.home / "load.py").write_text(LOAD, encoding="utf-8")
    installed.run("python", "load.py")


def a_recording() -> dict[str, Any]:
    """Payments of which the last one exceeds the limit of a rule."""
    rule = {
        "ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregatorFunctionType": "SUM",
        "aggregateFieldName": "paymentAmount", "limitOperatorType": ">", "limit": 20, "windowMinutes": 20,
    }  # fmt: skip
    start_ms = 1_700_000_000_000
    payment = {"payeeId": 1, "beneficiaryId": 2, "paymentAmount": "7.50", "paymentType": "CSH"}
    steps: list[dict[str, Any]] = [{"at": start_ms, "rule": rule}]
    for number in range(1, 4):
        at_ms = start_ms + number * 1_000
        steps.append({"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, **payment}})
    return {"steps": steps}
