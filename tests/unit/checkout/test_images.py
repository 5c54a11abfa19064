"""docker-compose.yml and the image file, checked without a Docker daemon."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from typer.main import get_command

from compose_check.composefile import ComposeFile
from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings
from fraud_local.airflow import AirflowSite, Component
from fraud_rules.cli import app
from fraud_rules.configuration.project import Project
from fraud_rules.deploy.release import Release
from fraud_rules.kafka.access import KafkaComponent
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.scram_users import passwords_of

ONE_SHOT = {"init"}
FOREIGN = {"kafka", "postgres"}
HOME = "/opt/fraud"
PARSED = """
import json, sys
from airflow.cli.cli_parser import get_parser
for words in json.load(sys.stdin):
    get_parser().parse_args(words)
"""
KNOWN_SETTINGS = """
import json, sys
from airflow.configuration import conf
names = [name.removeprefix("AIRFLOW__").split("__", 1) for name in json.load(sys.stdin)]
known = {section: set(about["options"]) for section, about in conf.configuration_description.items()}
print(json.dumps([name for name in names if name[1].lower() not in known.get(name[0].lower(), ())]))
"""


@pytest.fixture(scope="module")
def compose(project: Project) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((project.root / "docker-compose.yml").read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def dockerfile(project: Project) -> str:
    return (project.config / "images" / "Dockerfile").read_text(encoding="utf-8")


def test_no_file_that_git_ignores_reaches_the_build(project: Project) -> None:
    """`.env` has the secrets of the installation, and the build copies its whole context."""
    ignored = (project.root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".env", ".env.*", "var", ".git"} <= set(ignored)


def services(compose: Mapping[str, Any], *without: str) -> dict[str, dict[str, Any]]:
    return {name: service for name, service in compose["services"].items() if name not in without}


def commands(compose: Mapping[str, Any], first: str) -> Iterator[list[str]]:
    """Every command and health check that begins with a word, without it."""
    for service in compose["services"].values():
        for words in (service.get("command", []), service.get("healthcheck", {}).get("test", ["CMD"])[1:]):
            if words[:1] == [first]:
                yield words[1:]


def properties(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}


def run_with(script: str, document: object, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(document),
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_file_matches_the_compose_schema(project: Project) -> None:
    checker = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*checker, "docker-compose.yml"], cwd=project.root, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()


def test_services_run_as_an_unprivileged_user(compose: dict[str, Any]) -> None:
    users = {name: service["user"] for name, service in compose["services"].items()}
    assert users.pop("kafka") == "appuser"
    assert users.pop("postgres") == "postgres"
    assert set(users.values()) == {"fraud"}


def test_our_services_have_minimal_privileges(compose: dict[str, Any]) -> None:
    for name, service in services(compose, *FOREIGN).items():
        assert service["image"] == "fraud-rules", name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_long_running_services_have_health_checks_and_restart(compose: dict[str, Any]) -> None:
    wanted = {"healthcheck", "restart", "stop_grace_period"}
    for name, service in services(compose, *ONE_SHOT).items():
        assert wanted <= service.keys(), name


def test_durable_data_are_on_declared_volumes(compose: dict[str, Any]) -> None:
    mounts = [volume.split(":") for service in compose["services"].values() for volume in service.get("volumes", ())]
    scripts = [mount for mount in mounts if mount[0].startswith(".")]
    assert {source for source, *_ in mounts} - {source for source, *_ in scripts} == compose["volumes"].keys()
    assert [(source, mode) for source, _, mode in scripts] == [("./config/images/broker.sh", "ro")]


def test_ports_are_published_on_loopback_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_dependency_has_a_health_check_or_ends(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for other, how in service.get("depends_on", {}).items():
            one_shot = how["condition"] == "service_completed_successfully"
            assert one_shot is (other in ONE_SHOT), (name, other)
            assert one_shot or "healthcheck" in compose["services"][other], (name, other)


def test_nothing_has_a_default_password(compose: dict[str, Any], project: Project) -> None:
    """Each secret comes from .env, is refused when empty, and is listed, empty, in the example."""
    text = (project.root / "docker-compose.yml").read_text(encoding="utf-8")
    needed = set(re.findall(r"\$\{([A-Z_]+):\?", text))
    example = properties((project.root / ".env.example").read_text(encoding="utf-8"))
    assert example.keys() == needed
    assert not any(example.values())
    secret = re.compile("PASSWORD|SECRET|FERNET")
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if secret.search(name):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), name
        assert not secret.search(" ".join(service.get("command", [])))


def test_every_command_of_ours_exists(compose: dict[str, Any]) -> None:
    agent = [["detector", "agent", *words[1:]] for words in commands(compose, "sh") if words[0].endswith("agent.sh")]
    found = [
        *commands(compose, "fraud"),
        *agent,
        *(["kafka", *each.split()] for each in ("topics apply", "acls users", "acls apply")),
    ]
    assert len(found) == 7
    for words in found:
        command: Any = get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command, words = command.commands[words[0]], words[1:]
        command.make_context("fraud", list(words))


def test_every_command_of_airflow_exists(compose: dict[str, Any], tmp_path: Path) -> None:
    found = list(commands(compose, "airflow"))
    assert {words[0] for words in found} == set(Component) - {Component.CONTROL_PLANE}
    done = run_with(PARSED, found, {"AIRFLOW_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_spark_is_started_as_the_tests_start_it(compose: dict[str, Any], project: Project) -> None:
    classes = [words[0] for words in commands(compose, "spark-class")]
    assert classes == ["org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"]
    assert compose["services"]["spark-worker"]["deploy"]["replicas"] == 2
    assert Path(sys.executable).with_name("spark-class").exists()


def test_airflow_is_set_as_the_local_one(compose: dict[str, Any], project: Project, tmp_path: Path) -> None:
    """Every setting exists, and those that do not say where something is are the demo's."""
    environment = compose["services"]["airflow-scheduler"]["environment"]
    ours = {name: value for name, value in environment.items() if name.startswith("AIRFLOW__")}
    done = run_with(KNOWN_SETTINGS, list(ours), {"AIRFLOW_HOME": str(tmp_path)})
    assert json.loads(done.stdout.splitlines()[-1]) == [], done.stderr
    local = AirflowSite(tmp_path, project, 8080, 8090, "x", "").environment({})
    same = ["LOAD_EXAMPLES", "DAGS_ARE_PAUSED_AT_CREATION", "EXECUTOR", "PARALLELISM"]
    assert {name: ours[f"AIRFLOW__CORE__{name}"] for name in same} == {
        name: local[f"AIRFLOW__CORE__{name}"] for name in same
    }
    assert {name for name in ours if name in local} >= {"AIRFLOW__API__SECRET_KEY", "AIRFLOW__CORE__FERNET_KEY"}


def test_airflow_knows_its_users(compose: dict[str, Any], project: Project) -> None:
    manager = compose["services"]["airflow-api-server"]["environment"]["AIRFLOW__CORE__AUTH_MANAGER"]
    assert manager == "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
    groups = tomllib.loads((project.root / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    assert any(each.startswith("apache-airflow-providers-fab") for each in groups["server"])


def test_only_the_named_admin_has_a_role(compose: dict[str, Any], project: Project) -> None:
    """Neither the shipped settings nor the containers give a user like `admin` a role in the control plane."""
    given = compose["services"]["control-plane"]["environment"]
    assert given["FRAUD_ADMIN_USER"].startswith("${FRAUD_ADMIN_USER:?")
    filled = {"FRAUD_ADMIN_USER": "olga", "FRAUD_CONTROL_DATABASE": "sqlite:///control.db"}
    filled |= {"FRAUD_CONTROL_TICKET_KEY": "k" * 64, "FRAUD_CONTROL_URL": "http://127.0.0.1:8080"}
    assert ControlPlaneSettings.load(project, {**given, **filled}).bindings == {"olga": Role.ADMIN}
    assert ControlPlaneSettings.load(project, {}).bindings == {}


def test_the_connections_make_a_valid_release(compose: dict[str, Any]) -> None:
    environment = compose["services"]["airflow-triggerer"]["environment"]
    spark = json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"])
    kafka = json.loads(environment["AIRFLOW_CONN_FRAUD_KAFKA"])
    bootstrap = kafka["extra"]["bootstrap.servers"]
    assert bootstrap == compose["services"]["agent"]["environment"]["FRAUD_BOOTSTRAP"]
    assert f"INSIDE://{bootstrap}" in compose["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    release = Release(code="", settings="", schema="", bootstrap=bootstrap, master=spark["host"], **spark["extra"])
    assert release.master == "spark://spark-master:7077"
    KafkaConnection.of(bootstrap, {name: text for name, text in kafka["extra"].items() if name != "bootstrap.servers"})


def test_only_the_pages_read_the_logs_that_the_agent_keeps(
    compose: dict[str, Any],
) -> None:
    mounts = {name: service.get("volumes", []) for name, service in compose["services"].items()}
    users = {name for name, volumes in mounts.items() if any(each.startswith("agent:") for each in volumes)}
    assert users == {"agent", "control-plane"}
    assert f"agent:{HOME}/var:ro" in mounts["control-plane"]


def test_the_archive_is_written_where_tasks_and_workers_reach_it(compose: dict[str, Any]) -> None:
    for name in ("airflow-scheduler", "control-plane", "spark-worker"):
        assert "archive:/opt/fraud/archive" in compose["services"][name]["volumes"], name
    assert compose["services"]["airflow-scheduler"]["environment"]["AIRFLOW_VAR_FRAUD_ARCHIVE"] == f"{HOME}/archive"


def test_containers_broker_is_set_as_the_local_one(compose: dict[str, Any], project: Project) -> None:
    local = properties((project.config / "broker.properties").read_text(encoding="utf-8"))
    environment = compose["services"]["kafka"]["environment"]
    given = {name.removeprefix("KAFKA_").lower().replace("_", "."): str(value) for name, value in environment.items()}
    # One more listener, for the containers.
    listeners = {"listener.security.protocol.map", "inter.broker.listener.name"}
    shared = given.keys() & local.keys() - listeners
    assert len(shared) >= 10
    assert {name: given[name] for name in shared} == {name: local[name] for name in shared}


def user_of(environment: Mapping[str, str]) -> str:
    """The SCRAM user of a service, from its environment or from Airflow's connection."""
    if "FRAUD_KAFKA_SASL_USERNAME" in environment:
        return environment["FRAUD_KAFKA_SASL_USERNAME"]
    user: str = json.loads(environment["AIRFLOW_CONN_FRAUD_KAFKA"])["extra"]["sasl.username"]
    return user


def test_each_component_logs_in_to_kafka_as_its_own_user(compose: dict[str, Any], project: Project) -> None:
    environments = {name: service["environment"] for name, service in compose["services"].items()}
    users = {
        name: user_of(environment)
        for name, environment in environments.items()
        if environment.keys() & {"FRAUD_KAFKA_SASL_USERNAME", "AIRFLOW_CONN_FRAUD_KAFKA"}
    }
    airflow = dict.fromkeys(
        ("airflow-api-server", "airflow-scheduler", "airflow-triggerer", "airflow-dag-processor"), "fraud-airflow"
    )
    others = {"control-plane": "fraud-control-plane", "heartbeat": "fraud-heartbeat", "init": "admin"}
    assert users == airflow | others
    script = (project.config / "images" / "agent.sh").read_text(encoding="utf-8")
    assert environments["agent"]["FRAUD_KAFKA_PROPERTIES"] == "/tmp/kafka/agent.properties"
    assert re.findall(r"^write_properties (\w+)", script, re.MULTILINE) == ["agent", "detector"]


def test_every_component_has_a_password_that_init_gives_it(compose: dict[str, Any]) -> None:
    users = passwords_of(list(KafkaComponent), compose["services"]["init"]["environment"])
    assert len(set(users.values())) == len(users)


def test_no_container_reaches_kafka_without_a_password(compose: dict[str, Any]) -> None:
    environment = compose["services"]["kafka"]["environment"]
    listeners = dict(each.split("://") for each in environment["KAFKA_LISTENERS"].split(","))
    protocols = dict(each.split(":") for each in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    open_to_all = {name: listeners[name] for name, protocol in protocols.items() if protocol == "PLAINTEXT"}
    assert open_to_all == {"CONTROLLER": "127.0.0.1:9093"}
    assert environment["KAFKA_AUTHORIZER_CLASS_NAME"].endswith(".StandardAuthorizer")
    assert environment["KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND"] == "false"


def test_base_images_have_no_default_and_the_example_completes_them_with_digests(
    compose: dict[str, Any], dockerfile: str, project: Project
) -> None:
    kafka = re.search(r'name="kafka_2\.13" rev="([0-9.]+)"', (project.config / "ivy.xml").read_text(encoding="utf-8"))
    assert kafka is not None
    assert ComposeFile.read(project.root / "docker-compose.yml").base_images == {
        "FRAUD_PYTHON_IMAGE": "python:3.11-slim-bookworm",
        "FRAUD_KAFKA_IMAGE": f"apache/kafka:{kafka[1]}",
        "FRAUD_POSTGRES_IMAGE": "postgres:17-bookworm",
    }
    ours = compose["services"]["agent"]["build"]["args"]["PYTHON_IMAGE"]
    foreign = [compose["services"][name]["image"] for name in sorted(FOREIGN)]
    for image, name in zip([ours, *foreign], ("PYTHON", "KAFKA", "POSTGRES"), strict=True):
        assert image.startswith(f"${{FRAUD_{name}_IMAGE:?")
    assert set(re.findall(r"^(?:FROM|ARG) (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}", "PYTHON_IMAGE"}


def test_the_image_has_no_code_but_the_wheels(dockerfile: str) -> None:
    """It copies configuration beside the environment, with Airflow's DAG file, and drops root."""
    build, final = dockerfile.split("\nFROM ${PYTHON_IMAGE}\n")
    assert re.findall(r"^COPY (?:--from=build )?(\S+)", final, re.MULTILINE) == ["/opt/fraud/.venv", "config"]
    installs = [line for line in build.splitlines() if line.startswith("RUN uv pip install")]
    assert [line.split(" ", 8)[-1] for line in installs] == [
        "--require-hashes -r /requirements.txt", "--no-deps /wheels/*.whl",
    ]  # fmt: skip
    assert final.index("\nUSER 10001") < final.index("\nCMD")


def test_the_image_has_bytecode_because_a_container_cannot_write_it(compose: dict[str, Any], dockerfile: str) -> None:
    assert "--compile-bytecode" in dockerfile
    assert all(service["read_only"] for service in services(compose, *FOREIGN).values())


def test_every_path_of_ours_is_in_the_image(compose: dict[str, Any], dockerfile: str) -> None:
    final = dockerfile.split("\nFROM ${PYTHON_IMAGE}\n")[1]
    copied = {f"{HOME}/{target}" for target in re.findall(r"^COPY .*?(\S+)$", final, re.MULTILINE)}
    (made,) = re.findall(r"install -d -o fraud -g fraud (.+)$", final, re.MULTILINE)
    used = set(re.findall(rf"{HOME}/[a-z]+", yaml.safe_dump(compose["services"])))
    assert used <= copied | set(made.split())
    assert "config/images/init.sh" in compose["services"]["init"]["command"]


def test_only_processes_of_the_detector_share_compiled_code(compose: dict[str, Any]) -> None:
    """A process that could write to it could change what the detector executes."""
    services = compose["services"]
    sharing = {name for name, each in services.items() if any("/cache" in at for at in each.get("volumes", ()))}
    set_to_it = {name for name, each in services.items() if "FRAUD_CACHE_DIR" in each.get("environment", {})}
    assert sharing == set_to_it == {"agent", "spark-worker"}


def test_the_health_of_airflows_components_comes_from_the_api_server(compose: dict[str, Any], project: Project) -> None:
    script = runpy.run_path(str(project.config / "images" / "airflow_health.py"))
    is_healthy = script["is_healthy"]
    document = {
        "scheduler": {"status": "healthy"},
        "triggerer": {"status": "unhealthy"},
        "dag_processor": {"status": None},
    }
    assert [is_healthy(document, name) for name in (*document, "unknown")] == [True, False, False, False]
    checked = [words[1] for words in commands(compose, "python") if words[0] == "config/images/airflow_health.py"]
    assert sorted(checked) == ["dag_processor", "scheduler", "triggerer"]
    assert urlsplit(script["URL"]).hostname in compose["services"]
