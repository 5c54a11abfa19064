"""The release that a checkout or an installation stands for, as its files are now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fraud_rules.deployment.code import code_digest, code_digest_of_wheel
from fraud_rules.deployment.release import Release, settings_of
from fraud_rules.errors import ConfigError

__all__ = ["release_of"]


def release_of(
    config: Path,
    *,
    checkpoint: str,
    bootstrap: str,
    wheel: str = "",
    environ: Mapping[str, str] = os.environ,
    **options: Any,
) -> Release:
    """The release of the settings and schema in a folder, and of a wheel or else the code that runs here.

    `options` are further members of `Release`. Raises ConfigError when the files are wrong, ReleaseInvalid for a wheel
    that cannot be read.
    """
    code = code_digest_of_wheel(Path(wheel)) if wheel else code_digest()
    release = Release(
        code=code,
        settings=_text(config / "detector.yaml"),
        schema=_text(config / "schema.yaml"),
        checkpoint=checkpoint,
        bootstrap=bootstrap,
        wheel=wheel,
        **options,
    )
    settings_of(release, environ)
    return release


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
