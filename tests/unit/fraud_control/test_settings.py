"""The settings of the control plane."""

from __future__ import annotations

import yaml

from fraud_control.settings import Bounds, ControlPlaneSettings, Flood, Notifications, Rates
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings_file import settable
from tests.support.places import ROOT


def test_the_shipped_file_is_valid_and_states_the_defaults(project: Project) -> None:
    assert ControlPlaneSettings.load(project, {}) == ControlPlaneSettings.parse({}, project.var, {})
    shipped = yaml.safe_load((ROOT / "config" / "control-plane.yaml").read_text(encoding="utf-8"))
    for name, group in {"bounds": Bounds, "rates": Rates, "flood": Flood, "notifications": Notifications}.items():
        assert shipped[name] == {each: getattr(group(), each) for each in settable(group)}, name
