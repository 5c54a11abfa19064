"""`python -m compose_check`: check docker-compose.yml with real containers. Exit code 1 if a step failed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from compose_check.errors import CheckFailed
from compose_check.machine import ContainerSite, require_programs
from compose_check.report import update_page
from compose_check.run import Ports, check, remove
from fraud_rules.configuration.project import Project
from tests.support.ports import free_ports


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check and remove its containers."""
    options = _parse(arguments)
    project = Project.find()
    os.chdir(project.root)
    site = ContainerSite(project.var / "compose-check", Path("/run/fraud-compose-check"))
    try:
        require_programs()
        site.prepare()
        return _run(project, site, options)
    except CheckFailed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1


def _run(project: Project, site: ContainerSite, options: argparse.Namespace) -> int:
    if options.remove:
        remove(project, site, images=True)
        return 0
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - started:5.0f} s] {line}", flush=True)

    try:
        results = check(project, site, Ports(*free_ports(3)), say, reuse_images=options.reuse_images)
    except (CheckFailed, KeyboardInterrupt):
        if not options.keep_failed:
            remove(project, site, images=not options.keep_images)
        raise
    update_page(project.root / "CONTRIBUTING.md", results)
    remove(project, site, images=not options.keep_images)
    say("everything is removed" if not options.keep_images else "the containers are removed; the images stay")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m compose_check", description=__doc__)
    add = parser.add_argument
    add("--keep-images", action="store_true", help="keep the images for the next check")
    add("--reuse-images", action="store_true", help="start with the images that an earlier check has kept, unchanged")
    add("--keep-failed", action="store_true", help="keep the containers of a check that failed")
    add("--remove", action="store_true", help="only remove what an earlier check kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
