"""Builds the command line of a detector from a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fraud_rules.configuration.detector_options import DetectorOptions, option_of
from fraud_rules.deploy.intent import Intent


def detector_arguments(intent: Intent, epoch: int, *, settings: Path, schema: Path) -> Sequence[str]:
    """The arguments of `detector.py` for a RUN intent. They contain no secrets.

    `settings` and `schema` are files with the texts of the release, on the host of the detector's driver.
    """
    release = intent.release
    assert release is not None, "only a RUN intent starts a detector"
    options = DetectorOptions(
        attempt=intent.attempt_id,
        epoch=epoch,
        bootstrap=release.bootstrap,
        settings=settings,
        schema=schema,
        master=release.master,
        tasks=release.tasks,
        driver_memory=release.driver_memory,
        spark_conf=release.spark,
        ui_port=release.ui_port,
        metrics=release.metrics,
        resume=intent.resume,
        rebuild=None if intent.rebuild is None else intent.attempt_id,
        partial=intent.rebuild is not None and intent.rebuild.partial,
        accept_loss=intent.accept_loss,
    )
    return options.arguments()


def attempt_argument(attempt_id: str) -> str:
    """The argument that identifies the processes of an attempt."""
    return f"{option_of('attempt').flag}={attempt_id}"
