"""Folders of the checkout under test."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
CORPUS = ROOT / "tests" / "corpus"


def has_file_store() -> bool:
    """Whether Java finds the file store of a folder. It does not in a chroot whose root is no mount, and then Kafka
    reports no sizes of its logs."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return any(mount.split()[4] == "/" for mount in mounts)
