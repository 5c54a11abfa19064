"""Results on disk: one JSON file per group of rows, so that each group can be measured again alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from fraud_rules.runtime.atomic_file import Durability, write_file

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Results:
    """The runs of one group of rows: values by key, with machine, command and time (ISO, UTC)."""

    name: str
    measured: str
    command: str
    machine: Mapping[str, str]
    runs: tuple[Mapping[str, float], ...]


def write(results: Results, folder: Path = FOLDER) -> None:
    """Save the results atomically."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{results.name}.json"
    write_file(path, (json.dumps(asdict(results), indent=1) + "\n").encode(), Durability.NONE)


def read(name: str, folder: Path = FOLDER) -> Results | None:
    """Return the results of a group of rows, or None if it was never measured."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    return Results(**(document | {"runs": tuple(document["runs"])}))
