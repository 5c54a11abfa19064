"""The settings of the control plane."""

from __future__ import annotations

import dataclasses

import yaml

from fraud_ops.control_plane.settings import Bounds, Flood, Notifications, Rates
from tests.support.places import ROOT


def test_the_shipped_file_states_the_defaults() -> None:
    shipped = yaml.safe_load((ROOT / "config" / "control-plane.yaml").read_text(encoding="utf-8"))
    for name, group in {"bounds": Bounds, "rates": Rates, "flood": Flood, "notifications": Notifications}.items():
        assert shipped[name] == dataclasses.asdict(group()), name
