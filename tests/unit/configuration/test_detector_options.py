"""The options of a detector: declared once, parsed by `detector.py`, built from a release, offered by the commands."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from fraud_rules.cli import options as shared
from fraud_rules.configuration.detector_options import DEFAULTS, DetectorOptions, option_of
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError

ALL = DetectorOptions(
    attempt="a1",
    epoch=7,
    bootstrap="a:1,b:2",
    settings=Path("/s.yaml"),
    schema=Path("/schema.yaml"),
    master="spark://master:7077",
    tasks=8,
    driver_memory="2g",
    spark_conf={"spark.b": "x=y", "spark.a": "1"},
    ui_port=4040,
    metrics="127.0.0.1:9100",
    resume=True,
    rebuild="a1",
    partial=True,
    accept_loss=True,
    hold=Path("/go"),
    check=True,
)


def test_a_command_line_has_every_option_once() -> None:
    assert ALL.arguments() == [
        "--attempt=a1",
        "--epoch=7",
        "--bootstrap=a:1,b:2",
        "--settings=/s.yaml",
        "--schema=/schema.yaml",
        "--master=spark://master:7077",
        "--tasks=8",
        "--driver-memory=2g",
        "--spark-conf=spark.a=1",
        "--spark-conf=spark.b=x=y",
        "--ui-port=4040",
        "--metrics=127.0.0.1:9100",
        "--resume",
        "--rebuild=a1",
        "--partial",
        "--accept-loss",
        "--hold=/go",
        "--check",
    ]


def test_options_without_a_value_do_not_appear() -> None:
    assert DEFAULTS.arguments() == [
        "--epoch=0", "--master=local[2,4]", "--driver-memory=1536m",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options", [DEFAULTS, ALL, *(replace(DEFAULTS, **{each.name: getattr(ALL, each.name)}) for each in fields(ALL))]
)
def test_a_parsed_command_line_gives_the_same_options(options: DetectorOptions) -> None:
    assert DetectorOptions.parse(options.arguments()) == options


def test_the_project_and_the_environment_supply_defaults(project: Project) -> None:
    assert DEFAULTS.in_project(project, {}) == replace(
        DEFAULTS,
        bootstrap="127.0.0.1:9092",
        settings=project.config / "detector.yaml",
        schema=project.config / "schema.yaml",
    )
    assert DEFAULTS.in_project(project, {"FRAUD_BOOTSTRAP": "c:3"}).bootstrap == "c:3"
    assert ALL.in_project(project, {"FRAUD_BOOTSTRAP": "c:3"}) == ALL


def test_a_spark_setting_without_a_value_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"'spark\.a' must be name=value"):
        DetectorOptions.parse(["--spark-conf=spark.a"])


def test_help_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        DetectorOptions.parse(["--help"], "Start the detector.")
    said = capsys.readouterr().out
    assert all(option_of(each).flag in said for each in fields(DetectorOptions))


def test_the_commands_offer_options_as_they_are_declared() -> None:
    declared = {option_of(each).flag: option_of(each) for each in fields(DetectorOptions)}
    found: dict[str, Any] = {}
    for _, kind in inspect.getmembers(shared, lambda each: get_args(each) != ()):
        option = get_args(kind)[1]
        found[option.default] = option  # typer takes the flag out of the default of an annotation
    found = {flag: option for flag, option in found.items() if flag in declared and flag != "--bootstrap"}
    assert len(found) == 9
    assert all(
        (declared[flag].help, declared[flag].at_least) == (option.help, option.min) for flag, option in found.items()
    )
