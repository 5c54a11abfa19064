"""The agent's allow-list: the releases that the agent of this host accepts, read from a file of the agent.

An intent comes from Kafka, and some members of a release decide which code runs with the agent's rights, and which
broker receives its credentials. So the agent's own file bounds these members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fraud_rules.deploy.release import Release
from fraud_rules.errors import ConfigError, ReleaseNotAllowed
from fraud_rules.runtime.safe_text import quote
from fraud_rules.runtime.yaml_file import read_yaml

_ANY: Final = "*"
_REFERENCE: Final = "${"


@dataclass(frozen=True, slots=True)
class AllowList:
    """The accepted values of a release's members.

    `bootstrap_servers` are host:port. `masters` and `spark_settings` are names; a final `*` stands for any ending. A
    wheel must be in one of `wheel_folders` or below it. `kafka_properties` are the accepted files with credentials.
    """

    bootstrap_servers: tuple[str, ...]
    masters: tuple[str, ...]
    spark_settings: tuple[str, ...]
    wheel_folders: tuple[Path, ...] = ()
    kafka_properties: tuple[Path, ...] = ()

    @classmethod
    def load(cls, path: Path, bootstrap: str) -> AllowList:
        """Read the file. Without `bootstrap_servers` in it, the agent's own, `bootstrap`, are accepted.

        Raises ConfigError with every fault.
        """
        document = read_yaml(path)
        faults: list[str] = []
        if not isinstance(document, Mapping):
            raise ConfigError(f"{path}: must be a mapping")
        faults += [f"{name} is unknown" for name in document if name not in cls.__dataclass_fields__]
        texts = {name: _texts(document, name, faults) for name in cls.__dataclass_fields__}
        for name in ("wheel_folders", "kafka_properties"):
            faults += [f"{name}: {quote(each)} is not an absolute path" for each in texts[name] if each[:1] != "/"]
        if faults:
            raise ConfigError(f"{path}: " + "; ".join(faults))
        return cls(
            texts["bootstrap_servers"] or tuple(_servers(bootstrap)),
            texts["masters"],
            texts["spark_settings"],
            tuple(map(Path, texts["wheel_folders"])),
            tuple(map(Path, texts["kafka_properties"])),
        )

    def check(self, release: Release) -> None:
        """Raise ReleaseNotAllowed with every member of the release that the list does not permit."""
        faults = list(self._faults(release))
        if faults:
            raise ReleaseNotAllowed(f"the agent's allow-list does not permit {'; '.join(faults)}")

    def _faults(self, release: Release) -> Iterator[str]:
        for server in _servers(release.bootstrap):
            if server not in self.bootstrap_servers:
                yield f"the bootstrap server {quote(server)}"
        if not _matches(release.master, self.masters):
            yield f"the master {quote(release.master)}"
        for name, value in release.spark.items():
            if not _matches(name, self.spark_settings):
                yield f"the Spark setting {quote(name)}"
            elif _REFERENCE in value:
                yield f"a reference in the Spark setting {quote(name)}"
        # A link in an allowed folder may lead out of it, so the check is on the resolved path.
        wheel = Path(release.wheel).resolve()
        if release.wheel and not any(wheel.is_relative_to(folder.resolve()) for folder in self.wheel_folders):
            yield f"the wheel {quote(release.wheel)}"
        if release.kafka_properties and Path(release.kafka_properties) not in self.kafka_properties:
            yield f"the Kafka properties {quote(release.kafka_properties)}"


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    return any(
        text.startswith(pattern.removesuffix(_ANY)) if pattern.endswith(_ANY) else text == pattern
        for pattern in patterns
    )


def _servers(bootstrap: str) -> list[str]:
    return [server.strip() for server in bootstrap.split(",")]


def _texts(document: Mapping[Any, Any], name: str, faults: list[str]) -> tuple[str, ...]:
    value = document.get(name)
    found = [] if value is None else value
    if isinstance(found, list) and all(isinstance(each, str) and each for each in found):
        return tuple(found)
    faults.append(f"{name} must be a list of texts")
    return ()
