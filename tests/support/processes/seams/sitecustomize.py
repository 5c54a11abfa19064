"""Sets constants of the product in every Python process of a detector, as `DETECTOR_SEAMS` says.

Python imports this module at its start, because `with_constants` puts this folder on the path. The modules get their
values when the product imports them, so this module imports none of them.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, values: Mapping[str, object]) -> None:
        self._loader, self._values = loader, values

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for name, value in self._values.items():
            assert hasattr(module, name), f"{module.__name__} has no {name}"
            setattr(module, name, value)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, modules: dict[str, dict[str, object]]) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        values = self._modules.pop(name, None)
        if values is None:
            return None
        spec = importlib.util.find_spec(name)
        assert spec is not None
        spec.loader = _Loader(spec.loader, values)
        return spec


sys.meta_path.insert(0, _Finder(json.loads(os.environ.get("DETECTOR_SEAMS", "{}"))))
