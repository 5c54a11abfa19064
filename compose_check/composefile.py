"""The parts of a Compose file that the check follows: services, their order, health checks, replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Service:
    """A service. `after` are the services whose condition it awaits. A one-shot service has to end with exit code 0."""

    name: str
    replicas: int
    after: frozenset[str]
    one_shot: bool
    builds: bool


@dataclass(frozen=True, slots=True)
class ComposeFile:
    """A Compose file with its services in the order of their conditions."""

    path: Path
    services: tuple[Service, ...]
    secrets: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> ComposeFile:
        """Read the file. `secrets` are the variables without a default in .env."""
        text = path.read_text(encoding="utf-8")
        declared: Mapping[str, Any] = yaml.safe_load(text)["services"]
        awaited = set(_completed(declared))
        order = TopologicalSorter({name: sorted(each.get("depends_on", {})) for name, each in declared.items()})
        services = tuple(_service(name, declared[name], name in awaited) for name in order.static_order())
        return cls(path, services, tuple(sorted(_required(text))))

    @property
    def long_running(self) -> tuple[Service, ...]:
        """The services that run until they are stopped."""
        return tuple(each for each in self.services if not each.one_shot)

    @property
    def base_images(self) -> dict[str, str]:
        """The base images by their variables: the names that .env.example, beside the file, completes with digests."""
        example = self.path.with_name(".env.example").read_text(encoding="utf-8")
        return dict(re.findall(r"^#   pin (FRAUD_[A-Z]+_IMAGE) (\S+)$", example, re.MULTILINE))


def _service(name: str, declared: Mapping[str, Any], one_shot: bool) -> Service:
    return Service(
        name=name,
        replicas=declared.get("deploy", {}).get("replicas", 1),
        after=frozenset(declared.get("depends_on", {})),
        one_shot=one_shot,
        builds="build" in declared,
    )


def _completed(declared: Mapping[str, Any]) -> Iterator[str]:
    for each in declared.values():
        for name, how in each.get("depends_on", {}).items():
            if how["condition"] == "service_completed_successfully":
                yield name


def _required(text: str) -> set[str]:
    """The names in `${NAME:?message}`."""
    return {part.partition(":?")[0] for part in text.split("${")[1:] if ":?" in part.partition("}")[0]}
