"""Builds a release from the current files and environment of a checkout or an installation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.code import code_digest, code_digest_of_wheel
from fraud_rules.deploy.release import Release
from fraud_rules.model.schema import TransactionSchema


def release_of(
    config: Path,
    *,
    bootstrap: str,
    wheel: str = "",
    environ: Mapping[str, str] = os.environ,
    **options: Any,
) -> Release:
    """Build the release from detector.yaml and schema.yaml in a folder, and from a wheel or the running code.

    The overrides of the environment are part of the release; comments and the order of keys are not. `options` are
    further members of `Release`. Raises ConfigError if a file is invalid, ReleaseInvalid if the wheel cannot be read.
    """
    return Release(
        code=code_digest_of_wheel(Path(wheel)) if wheel else code_digest(),
        settings=DetectorSettings.load(config / "detector.yaml", environ).text(),
        schema=TransactionSchema.load(config / "schema.yaml").text(),
        bootstrap=bootstrap,
        wheel=wheel,
        **options,
    )
