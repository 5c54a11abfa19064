"""The result of a check, as a file and as a part of CONTRIBUTING.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from compose_check.errors import CheckFailed

__all__ = ["Results", "update_page"]

_BEGIN, _END = "<!-- results -->\n", "<!-- end of results -->\n"


@dataclass(frozen=True, slots=True)
class Results:
    """The figures of a completed check, in seconds. `kills` are the times from a kill to a healthy container."""

    at: str
    facts: Mapping[str, str]
    build_s: float
    ready: Mapping[str, float]
    detector_s: float
    first_alert_s: float
    four_eyes_alert_s: float
    kills: Mapping[str, float] = field(default_factory=dict)
    last_alert_s: float = 0.0
    total_s: float = 0.0

    def write(self, path: Path) -> None:
        """Save the results."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def markdown(self) -> str:
        """The section of the page."""
        facts = "; ".join(f"{name}: {value}" for name, value in self.facts.items())
        rows = [f"| {name} | {seconds:.0f} | {_shown(self.kills.get(name))} |" for name, seconds in self.ready.items()]
        return "\n".join(
            (
                f"Measured {self.at}. {facts}.",
                "",
                "| step | s |",
                "| --- | --- |",
                f"| build the images | {self.build_s:.0f} |",
                f"| start of the services, until the DAGs have deployed a detector | {self.detector_s:.0f} |",
                f"| planted payment to alert, seed rule (the first payment) | {self.first_alert_s:.1f} |",
                f"| planted payment to alert, a rule that a second person approved | {self.four_eyes_alert_s:.1f} |",
                f"| planted payment to alert, after all kills | {self.last_alert_s:.1f} |",
                f"| the whole check | {self.total_s:.0f} |",
                "",
                "| service | start to healthy (init: to its end), s | kill to healthy, s |",
                "| --- | --- | --- |",
                *rows,
                "",
            )
        )


def update_page(path: Path, results: Results) -> None:
    """Replace the results in a page. Raises CheckFailed if the page has no place for them."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise CheckFailed(f"{path} has no place for the results")
    path.write_text(f"{before}{begin}\n{results.markdown()}{end}{after}", encoding="utf-8")


def _shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f}"
