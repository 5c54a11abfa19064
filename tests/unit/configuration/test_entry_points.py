"""Entry points of packages above the product, which a wheel names although no wheel contains them."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from fraud_rules.configuration import entry_points


def test_only_what_is_not_installed_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name, value, "g") for name, value in (("b", "json:dumps"), ("a", "no_such_package.module"))]
    monkeypatch.setattr(entry_points, "entry_points", lambda group: EntryPoints(points))
    assert [name for name, _ in entry_points.loaded_entry_points("g")] == ["b"]
    points.append(EntryPoint("c", "json.no_such_module", "g"))
    with pytest.raises(ModuleNotFoundError):
        list(entry_points.loaded_entry_points("g"))
