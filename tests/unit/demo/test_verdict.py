"""The demo's verdict on a run, and its display, with manual values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from fraud_demo.screen import Sending, picture, status_line, summary
from fraud_demo.verdict import PublishedOutputs, SentTraffic, check_run
from fraud_demo.watch import OutputSnapshot, ReceivedAlert
from fraud_rules.logs.detector_status import DetectorStatus
from fraud_rules.monitoring.liveness import Liveness, Severity
from fraud_rules.replay.replay import alert_members

PLANTED = {7: "huge-payment-1", 8: "huge-payment-1", 9: "mule-fan-out-2"}


def alert(identity: str, transaction_id: int, *, shadow: bool = False, **members: Any) -> dict[str, Any]:
    return {
        "alertId": identity,
        "ruleId": 4,
        "ruleVersion": 3,
        "shadow": shadow,
        "violatedRule": {"name": "Exceptional single payment", "severity": "critical", "limit": 5},
        "key": {"payeeId": 1},
        "triggeringValue": "72123.45",
        "triggeringEvent": {"transactionId": transaction_id},
        "windowStart": 0,
        "windowEnd": 60_000,
        "windowCount": 1,
        "windowComplete": True,
        "suppressed": 0,
        "eventTime": 1_700_000_000_000,
        "ingestionTime": 1_700_000_000_100,
        **members,
    }


HUGE, MULES, TESTED = alert("a", 7), alert("b", 9), alert("c", 1, shadow=True)


def decisions(*alerts: dict[str, Any], score: int = 100) -> list[dict[str, Any]]:
    return [
        {
            "transactionId": each["triggeringEvent"]["transactionId"],
            "score": score,
            "outcome": "DECLINE",
            "alerts": [{"ruleId": 4, "ruleVersion": 3, "alertId": each["alertId"], "weight": score}],
            "eventTime": each["eventTime"],
        }
        for each in alerts
        if not each["shadow"]
    ]


def published(*alerts: dict[str, Any], late: tuple[int, ...] = (5,), quarantined: int = 2) -> PublishedOutputs:
    return PublishedOutputs(
        alerts=[each for each in alerts if not each["shadow"]],
        shadow_alerts=[each for each in alerts if each["shadow"]],
        late=[{"transaction": {"transactionId": each}} for each in late],
        quarantined=quarantined,
        decisions=decisions(*{each["alertId"]: each for each in alerts}.values()),
    )


def answer(*alerts: dict[str, Any]) -> dict[str, list[Any]]:
    members = [alert_members(each) for each in alerts]
    return {"alerts": members, "decisions": decisions(*alerts), "late": [5], "quarantine": [1, None], "duplicates": [3]}


def test_a_run_is_right_if_its_outputs_equal_the_replay() -> None:
    verdict = check_run(published(HUGE, MULES, TESTED), answer(HUGE, MULES, TESTED), SentTraffic(1_000, PLANTED))
    assert verdict.right
    assert (verdict.planted, verdict.found, verdict.others, verdict.duplicates) == (2, 2, 1, 1)
    assert verdict.patterns == ("huge-payment", "mule-fan-out")


@pytest.mark.parametrize(
    ("got", "wanted", "says"),
    [
        (published(HUGE, MULES, HUGE), answer(HUGE, MULES), "1 alerts published twice: a"),
        (published(HUGE, MULES), answer(HUGE, MULES, TESTED), "1 alerts in the replay but not published: c"),
        (published(HUGE, MULES, TESTED), answer(HUGE, MULES), "1 alerts published but not in the replay: c"),
        (
            published(HUGE, alert("b", 9, windowCount=2)),
            answer(HUGE, MULES),
            "1 alerts with other values than in the replay: b",
        ),
        (published(HUGE), answer(HUGE), "planted frauds without an alert: mule-fan-out-2"),
        (
            published(HUGE, MULES, late=()),
            answer(HUGE, MULES),
            "late transactions: 0 not in the replay, 1 missing",
        ),
        (published(HUGE, MULES, quarantined=3), answer(HUGE, MULES), "3 records quarantined, but 2 in the replay"),
        (
            replace(published(HUGE, MULES), decisions=decisions(HUGE, MULES, MULES)),
            answer(HUGE, MULES),
            "decisions: 1 not in the replay, 0 missing",
        ),
        (
            replace(published(HUGE, MULES), decisions=decisions(HUGE, MULES, score=99)),
            answer(HUGE, MULES),
            "decisions: 2 not in the replay, 2 missing",
        ),
        (
            replace(published(HUGE, MULES), alerts=[HUGE, MULES, TESTED]),
            answer(HUGE, MULES, TESTED),
            "1 alerts in the wrong topic (live or shadow)",
        ),
    ],
)
def test_every_fault_is_named(got: PublishedOutputs, wanted: dict[str, list[Any]], says: str) -> None:
    assert check_run(got, wanted, SentTraffic(1_000, PLANTED)).faults == (says,)


def test_alerts_about_ordinary_traffic_must_be_few() -> None:
    noise = [alert(f"noise-{each}", 100 + each) for each in range(6)]
    everything = [HUGE, MULES, *noise]
    assert check_run(published(*everything), answer(*everything), SentTraffic(10_000, PLANTED)).right
    (fault,) = check_run(published(*everything), answer(*everything), SentTraffic(1_000, PLANTED)).faults
    assert fault.startswith("6 alerts about ordinary traffic")


def test_the_picture_fits_the_terminal_and_marks_planted_frauds() -> None:
    status = DetectorStatus(True, 80, 41, 103.2, 12, 240, 480, 190, 7, 5_000, 2**20, None)
    recent = tuple(
        ReceivedAlert(alert(str(each), each), 1_700_000_000_400, "huge-payment-1" if each == 7 else None)
        for each in range(20)
    )
    live = Liveness(Severity.NONE, 1_000, 920, 0, 12, 0)
    seen = OutputSnapshot(
        recent, 20, 3, frozenset({"huge-payment-1"}), (9_000,), (300, 310, 500), status, live, {}, 7, {"REVIEW": 4}
    )
    lines = shown(picture(seen, Sending(1_234, 2, 12.3), 15, "Airflow: here"), 200).splitlines()
    assert len(lines) <= 24
    assert sum("Exceptional single payment" in line for line in lines) == 14
    assert [line for line in lines if "planted: huge-payment-1" in line]
    assert "300 ms" in lines[2]
    figures = " ".join(lines[-5:])
    for part in (
        "rate 103 tx/s",
        "waiting 12",
        "rules 7",
        "batch 190 ms",
        "310/500 ms",
        "1 of 2 planted",
        "0 decline, 4 review, 0 note",
    ):
        assert part in figures


def test_eighty_columns_show_every_figure_with_its_value_and_the_names_of_rules() -> None:
    status = DetectorStatus(True, 80, 41, 103.2, 12, 240, 480, 190, 7, 5_000, 2**20, None)
    recent = tuple(ReceivedAlert(alert(str(each), each), 1_700_000_000_400, "huge-payment-1") for each in range(20))
    live = Liveness(Severity.NONE, 1_000, 920, 0, 12_345, 0)
    seen = OutputSnapshot(
        recent, 20, 3, frozenset({"huge-payment-1"}), (9_000,), (300, 310, 500), status, live, {}, 7, {"REVIEW": 4}
    )
    text = shown(picture(seen, Sending(1_234_567, 2, 1_012.3), 11, "Airflow: here", wide=False), 80)
    assert len(text.splitlines()) <= 24
    assert text.count("Exceptional single payment") == 10
    for part in (
        "latency p50/p99 (last minute) 310/500 ms",
        "decisions 0 decline, 4 review, 0 note",
        "frauds found 1 of 2 planted",
    ):
        assert part in text
    assert "…" not in text


def test_a_dead_detector_is_not_shown_as_if_it_worked() -> None:
    status = DetectorStatus(False, 900_000, 41, 103.2, 0, 240, 480, 190, 7, 5_000, 2**20, None)
    down = Liveness(Severity.RED, 1_000_000, 100_000, 0, 52_310, 1)
    seen = OutputSnapshot((), 0, 0, frozenset(), (), (), status, down, {}, 7)
    sending = Sending(60_000, 2, 1_000.0)
    since = down.sentence().partition(" 52,310")[0]
    for text in (shown(picture(seen, sending, 5, "Airflow: here"), 200), shown(status_line(seen, sending), 200)):
        assert f"{since} 52,310 payments waiting." in text
        assert "lag" not in text
    assert "figures of the last batch (out of date)" in shown(picture(seen, sending, 5, "Airflow: here"), 200)


def test_the_summary_says_whether_the_run_was_right() -> None:
    right = check_run(published(HUGE, MULES), answer(HUGE, MULES), SentTraffic(1_000, PLANTED))
    wrong = check_run(published(HUGE), answer(HUGE), SentTraffic(1_000, PLANTED))
    assert "right: every alert equals the replay" in shown(summary(right, (200, 400)))
    assert "planted frauds without an alert: mule-fan-out-2" in shown(summary(wrong, ()))


def shown(renderable: object, width: int = 120) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()
