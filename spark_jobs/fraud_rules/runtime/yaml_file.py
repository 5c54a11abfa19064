"""Reads the product's YAML files. Values must be plain, and keys unique, although YAML itself accepts repeated keys."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from fraud_rules.errors import ConfigError
from fraud_rules.runtime.file_faults import fault_of_file

_KEPT: Final = 16


class UniqueKeysLoader(yaml.SafeLoader):
    """YAML's safe loader, but it refuses repeated keys: the plain loader would silently drop the first value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if isinstance(key.value, str) and names.count(key.value) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Decode a file. Raises ConfigError for an unreadable file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {fault_of_file(error)}") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Decode a text. `where` names it in errors. Raises ConfigError."""
    try:
        return deepcopy(_decoded(text))
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: cannot be read as YAML: {' '.join(str(error).split())}") from error


@lru_cache(_KEPT)
def _decoded(text: str) -> Any:
    """The values of a text. A supervisor reads its settings at each look, and YAML takes 30 ms of CPU time for them."""
    return yaml.load(text, UniqueKeysLoader)  # noqa: S506 - a SafeLoader, stricter
