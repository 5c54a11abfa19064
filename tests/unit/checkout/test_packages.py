"""The three wheels: what they contain, what they require, and what they tell Airflow."""

from __future__ import annotations

import json
import tomllib
import zipfile
from configparser import ConfigParser
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.shipped import RUNBOOK_PAGES, create_installation, shipped
from fraud_rules.deploy.code import code_digest, code_digest_of_wheel
from fraud_rules.errors import InputInvalid
from fraud_rules_airflow.get_provider_info import get_provider_info
from tests.support.places import ROOT
from tests.support.wheels import build_wheels, uv

ENGINE, PROVIDER, CONTROL_PLANE = "fraud-rules", "fraud-rules-airflow", "fraud-rules-control-plane"
MEMBERS = {ENGINE: ".", PROVIDER: "plugins/fraud_rules_airflow", CONTROL_PLANE: "plugins/fraud_control"}

CONTENTS = {
    ENGINE: {
        "detector.py", "archive.py", "reevaluate.py", "warm_up.py", "fraud_rules/py.typed", "fraud_ops/py.typed",
        "fraud_ops/observer.py", "fraud_rules/shipped/config/topics.yaml", "fraud_rules/shipped/config/detector.yaml",
        "fraud_rules/shipped/config/rules/2-payment-velocity.yaml", "fraud_rules/shipped/docs/schemas/alerts.json",
        "fraud_rules/shipped/docs/runbooks/stalled.md",
    },
    PROVIDER: {"fraud_rules_airflow/py.typed", "fraud_rules_airflow/plugin.py", "fraud_rules_airflow/dags/topics.py"},
    CONTROL_PLANE: {
        "fraud_control/py.typed", "fraud_control/static/index.html", "fraud_control/web/documents/runbook.css",
        "fraud_control/store/migrations/env.py",
    },
}  # fmt: skip

TOP_LEVEL = {
    ENGINE: {"fraud_rules", "fraud_ops", "detector.py", "archive.py", "reevaluate.py", "warm_up.py"},
    PROVIDER: {"fraud_rules_airflow"},
    CONTROL_PLANE: {"fraud_control"},
}

ENTRY_POINTS = {
    ENGINE: {("console_scripts", "fraud"), ("fraud_rules.schema_source", "registry")},
    PROVIDER: {("apache_airflow_provider", "provider_info"), ("airflow.plugins", "fraud_rules")},
    CONTROL_PLANE: {("fraud_rules.commands", "control-plane"), ("fraud_rules.commands", "store")},
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.ZipFile]:
    if uv() is None:
        pytest.skip("there is no uv")
    return {name: zipfile.ZipFile(path) for name, path in build_wheels(tmp_path_factory.mktemp("wheels")).items()}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_wheel_has_what_it_needs_and_nothing_of_the_checkout(name: str, wheels: dict[str, zipfile.ZipFile]) -> None:
    names = set(wheels[name].namelist())
    assert names >= CONTENTS[name]
    assert {each.partition("/")[0] for each in names if ".dist-info/" not in each} == TOP_LEVEL[name]
    assert not [each for each in names if "__pycache__" in each or "node_modules" in each or "/ui/src/" in each]


@pytest.mark.parametrize("name", CONTENTS)
def test_a_wheel_has_every_module_of_its_sources(name: str, wheels: dict[str, zipfile.ZipFile]) -> None:
    wanted = {
        path.relative_to(ROOT / folder).as_posix()
        for folder in ("spark_jobs", "plugins")
        for top in TOP_LEVEL[name]
        for path in [ROOT / folder / top, *(ROOT / folder / top).rglob("*.py")]
        if path.suffix == ".py" and path.is_file() and "node_modules" not in path.parts
    }
    assert wanted <= set(wheels[name].namelist())


def test_the_code_of_the_wheel_is_that_of_the_checkout_for_a_release(wheels: dict[str, zipfile.ZipFile]) -> None:
    assert code_digest_of_wheel(Path(str(wheels[ENGINE].filename))) == code_digest()


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_a_wheel_registers_what_others_look_up(name: str, wheels: dict[str, zipfile.ZipFile]) -> None:
    (file,) = (each for each in wheels[name].namelist() if each.endswith("entry_points.txt"))
    points = ConfigParser(delimiters=("=",))
    points.read_string(wheels[name].read(file).decode())
    assert {(group, point) for group in points.sections() for point in points[group]} >= ENTRY_POINTS[name]


def test_the_wheels_have_one_version_and_require_each_other_in_it() -> None:
    projects = {name: project_of(folder) for name, folder in MEMBERS.items()}
    (version,) = {each["version"] for each in projects.values()}
    for project in projects.values():
        extras = project["optional-dependencies"].values()
        required = [*project["dependencies"], *(each for extra in extras for each in extra)]
        own = [each for each in required if each.startswith("fraud-rules")]
        assert all(each.endswith(f"=={version}") for each in own)


def test_the_extra_spark_installs_one_version_of_the_files_that_pyspark_and_its_client_share() -> None:
    (spark,) = (each for each in project_of(".")["optional-dependencies"]["spark"] if each.startswith("pyspark"))
    (client,) = (each for each in project_of(MEMBERS[PROVIDER])["optional-dependencies"]["spark"] if "client" in each)
    assert client == spark.replace("pyspark", "pyspark-client")


def test_the_provider_names_each_of_its_modules_and_classes() -> None:
    info = get_provider_info()
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(info, schema)
    for kind in ("operators", "sensors", "triggers"):
        named = {module for each in info[kind] for module in each["python-modules"]}
        assert named >= {name for name in modules(kind) if defines_a(kind, name)}, kind
    hooks = [each["hook-class-name"] for each in info["connection-types"]]
    for path in (*hooks, *info["extra-links"], *info["notifications"]):
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name)


def test_a_new_installation_has_the_configuration_of_the_product(tmp_path: Path) -> None:
    config = create_installation(tmp_path / "home")
    assert Project.find({}, tmp_path / "home").config == config
    shown = {path.name for path in config.iterdir()}
    assert shown >= {"topics.yaml", "schema.yaml", "detector.yaml", "rules", "lists"}
    assert not shown & {"images", "ivy.xml"}
    assert (shipped() / RUNBOOK_PAGES / "stalled.md").is_file()
    with pytest.raises(InputInvalid, match="exists"):
        create_installation(tmp_path / "home")


def project_of(folder: str) -> dict[str, Any]:
    document = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
    project: dict[str, Any] = document["project"]
    return project


def modules(kind: str) -> list[str]:
    folder = ROOT / "plugins" / "fraud_rules_airflow" / kind
    return [f"fraud_rules_airflow.{kind}.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"]


def defines_a(kind: str, name: str) -> bool:
    suffix = kind.removesuffix("s").capitalize()
    return any(
        each.endswith(suffix) and getattr(value, "__module__", "") == name
        for each, value in vars(import_module(name)).items()
    )
