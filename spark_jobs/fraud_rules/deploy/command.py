"""Builds the command line of a detector from a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fraud_rules.deploy.intent import Intent

__all__ = ["attempt_argument", "detector_arguments"]


def detector_arguments(intent: Intent, epoch: int, *, settings: Path, schema: Path, jars: Path) -> Sequence[str]:
    """The arguments of `detector.py` for a RUN intent. They contain no secrets.

    `settings` and `schema` are files with the texts of the release, on the host of the detector's driver.
    """
    release = intent.release
    assert release is not None, "only a RUN intent starts a detector"
    arguments = [
        attempt_argument(intent.attempt_id),
        f"--epoch={epoch}",
        f"--bootstrap={release.bootstrap}",
        f"--checkpoint={release.checkpoint}",
        f"--settings={settings}",
        f"--schema={schema}",
        f"--jars={jars}",
        f"--master={release.master}",
        f"--shuffle-partitions={release.shuffle_partitions}",
        f"--driver-memory={release.driver_memory}",
    ]
    arguments += [f"--spark-conf={name}={value}" for name, value in sorted(release.spark.items())]
    if release.ui_port is not None:
        arguments.append(f"--ui-port={release.ui_port}")
    if release.metrics:
        arguments.append(f"--metrics={release.metrics}")
    if intent.resume:
        arguments.append("--resume")
    if intent.rebuild is not None:
        arguments.append(f"--rebuild={intent.attempt_id}")
        arguments += ["--partial"] if intent.rebuild.partial else []
    if intent.accept_loss:
        arguments.append("--accept-loss")
    return arguments


def attempt_argument(attempt_id: str) -> str:
    """The argument that identifies the processes of an attempt."""
    return f"--attempt={attempt_id}"
