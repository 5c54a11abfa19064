"""The demo's installation: the project's files, and a schema with places, which generated payments have."""

from __future__ import annotations

from itertools import product
from math import asin, cos, radians, sin, sqrt
from pathlib import Path

from fraud_demo.places import place_away, place_near_home
from fraud_demo.start.installation import demo_context, demo_schema, write_installation
from fraud_rules.cli.configured import CommandContext
from fraud_rules.configuration.project import HOME_VARIABLE, Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.schema import TransactionSchema


def test_the_installation_is_the_project_with_a_schema_that_has_places(project: Project, tmp_path: Path) -> None:
    declared = TransactionSchema.load(project.config / "schema.yaml")
    context = demo_context(CommandContext(project, DetectorSettings(), declared), tmp_path / "demo")
    write_installation(context.project.root, project)
    assert Project.find({HOME_VARIABLE: str(context.project.root)}) == context.project
    assert TransactionSchema.load(context.project.config / "schema.yaml") == context.schema
    names = [field.name for field in context.schema.fields]
    assert names == [*(field.name for field in declared.fields), "latitude", "longitude"]
    rules = sorted(path.name for path in (project.config / "rules").iterdir())
    assert sorted(path.name for path in (context.project.config / "rules").iterdir()) == rules


def test_a_schema_that_declares_places_keeps_its_fields(project: Project, tmp_path: Path) -> None:
    context = CommandContext(project, DetectorSettings(), TransactionSchema.load(project.config / "schema.yaml"))
    write_installation(tmp_path / "demo", project)
    assert demo_schema(Project(tmp_path / "demo")) == demo_context(context, tmp_path).schema


def test_a_payer_pays_near_home_and_travels_far() -> None:
    for payer in range(1_000_000, 1_000_050):
        near = [place_near_home(payer, payment) for payment in range(20)]
        away = [place_away(payer, payment) for payment in range(20)]
        assert max(kilometres(one, other) for one, other in product(near, near)) < 20
        assert min(kilometres(one, other) for one, other in product(near, away)) > 300


def kilometres(one: tuple[int, int], other: tuple[int, int]) -> float:
    (lat, lon), (lat2, lon2) = ([radians(each / 1_000_000) for each in place] for place in (one, other))
    return 2 * 6_371 * asin(sqrt(sin((lat2 - lat) / 2) ** 2 + cos(lat) * cos(lat2) * sin((lon2 - lon) / 2) ** 2))
