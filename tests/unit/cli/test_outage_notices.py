"""The notices of `fraud alerts list --follow` about an outage."""

from __future__ import annotations

from fraud_rules.cli.display.outage_notices import OutageNotices
from fraud_rules.monitoring.liveness import Liveness, Severity


def live(at_s: int, severity: Severity) -> Liveness:
    return Liveness(severity, at_s * 1_000, since_ms=0, asked_ms=None, waiting=at_s, starts=0)


def test_an_outage_is_reported_at_its_start_changes_and_end_and_every_minute() -> None:
    notices = OutageNotices()
    looks = [
        (5, Severity.NONE), (12, Severity.AMBER), (14, Severity.AMBER), (61, Severity.RED), (120, Severity.RED),
        (121, Severity.RED), (150, Severity.NONE), (300, Severity.NONE), (312, Severity.AMBER),
    ]  # fmt: skip
    said = {at_s: [str(each) for each in notices.of(live(at_s, severity))] for at_s, severity in looks}
    assert list(notices.of(None)) == []
    assert [at_s for at_s, lines in said.items() if lines] == [12, 61, 121, 150, 312]
    assert said[12][0].endswith("12 payments waiting.")
    assert said[150] == ["Payments are evaluated again."]
