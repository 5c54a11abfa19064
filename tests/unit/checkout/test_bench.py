"""The benchmark: loads and rules match their descriptions, and figures survive a round trip."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import psutil
import pytest
from bench.__main__ import main
from bench.figures import Figure, Rows, Scale, Spread, at_least, at_most, spread
from bench.inputs.full_store import fill
from bench.inputs.loads import UNIFORM_500K, WARM_100K, ZIPF_500K, Load, transactions
from bench.inputs.rulesets import FIRE_ALL, RULES_1, RULES_10, RULES_10_V2, RULES_10_V3, encoded, groupings, many
from bench.inputs.shapes import PLACES
from bench.meters.pauses import Pause, pauses, pauses_in
from bench.meters.watching import quantile
from bench.meters.watching import summary as watched
from bench.report import number, render, replaced, verdict
from bench.results import Results, read, write
from bench.rows import ALL
from bench.rows.backlog import APART_MS, marker_times
from bench.rows.engine import in_turns
from bench.rows.kernel import MIXES, evaluations_per_s, flatness
from bench.rows.soaks.compressed import run, summary
from bench.rows.state import retained
from bench.stream_reading import Events

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import RuleLimits
from fraud_rules.model.schema import TransactionSchema
from tests.support.control_plane.fixtures import scene
from tests.support.control_plane.scene import Scene

__all__ = ["scene"]


@pytest.mark.parametrize(
    ("load", "digest"),
    [
        (UNIFORM_500K, "9dd3d55de3a9171c"),
        (ZIPF_500K, "2501c1818e110e5b"),
        (WARM_100K, "c314cf68b8efa6b6"),
    ],
)
def test_a_load_is_the_same_to_the_byte_everywhere(load: Load, digest: str) -> None:
    lines = b"\n".join(text for _, _, text in transactions(load.first(10_000)))

    assert hashlib.sha256(lines).hexdigest()[:16] == digest


def test_two_in_every_five_thousand_transactions_are_markers() -> None:
    load = UNIFORM_500K.first(10_000)
    amounts = [json.loads(text)["paymentAmount"] for _, _, text in transactions(load)]

    assert [i for i, amount in enumerate(amounts) if amount > 1_000_000] == [4_998, 4_999, 9_998, 9_999]
    assert load.markers == 4


def test_a_load_after_another_has_other_ids_and_later_times_and_is_otherwise_the_same() -> None:
    later = UNIFORM_500K.after(WARM_100K, APART_MS)
    first, moved = (json.loads(next(transactions(load))[2]) for load in (UNIFORM_500K, later))

    assert moved["transactionId"] > WARM_100K.id_base + WARM_100K.count
    assert moved["eventTime"] == WARM_100K.end_ms + APART_MS
    assert {**moved, "transactionId": 1, "eventTime": UNIFORM_500K.start_ms, "paymentType": "CSH"} == first


def test_the_hottest_key_of_zipf_has_a_fifth_of_the_transactions() -> None:
    made = islice(transactions(replace(ZIPF_500K, marker_every=0)), 5_000)
    pairs = Counter((each["payeeId"], each["beneficiaryId"]) for each in (json.loads(text) for _, _, text in made))

    assert 0.18 < pairs.most_common(1)[0][1] / 5_000 < 0.24


def test_every_rule_of_every_set_is_accepted(project: Project) -> None:
    plain, placed = TransactionSchema.load(project.config / "schema.yaml"), TransactionSchema.parse(PLACES.schema())
    for rules in (RULES_1, RULES_10, RULES_10_V2, RULES_10_V3, FIRE_ALL, many(250, 20), many(1_000, 10)):
        schema = placed if rules is RULES_10_V3 else plain
        entries = [read_entry(i, 0, text, schema, RuleLimits()) for i, (_, text) in enumerate(encoded(rules))]

        assert [entry.reasons for entry in entries if entry.change is None] == []


def test_the_second_set_of_ten_rules_has_the_groupings_of_the_first() -> None:
    rules = [each for each in RULES_10_V2 if "ruleId" in each]
    plain, of_both = ({tuple(each["groupingKeyNames"]) for each in found} for found in (RULES_10, rules))
    listed = [each for each in rules if "list(" in each.get("when", "")]
    baselines = [each["baseline"] for each in rules if "baseline" in each]

    assert (of_both, len(rules), len(RULES_10_V2) - len(rules)) == (plain, 10, 2)
    assert (sum("when" in each for each in rules) - len(listed), len(baselines), len(listed)) == (3, 4, 2)
    assert [each.get("deviations") for each in baselines].count(True) == 1


def test_the_third_set_of_ten_rules_has_the_groupings_of_the_first() -> None:
    signals = [each for each in RULES_10_V3 if each["ruleState"] == "SIGNAL"]
    rules = [each for each in RULES_10_V3 if each not in signals]
    plain, of_third = ({tuple(each["groupingKeyNames"]) for each in found} for found in (RULES_10, rules))
    conditions = Counter(tuple("ruleId" in one for one in each["conditions"]) for each in rules if "conditions" in each)

    assert (of_third, len(rules), len(signals)) == (plain, 10, 3)
    assert conditions == {(False,) * 3: 2, (True,) * 3: 2}
    assert sum(each.get("resolutionSeconds") == 3_600 for each in rules) == 2
    assert [each["windowCalendar"] for each in rules if "windowCalendar" in each] == ["DAY"]
    assert sum("distance_m" in each.get("when", "") for each in rules) == 1
    for each in RULES_10_V3:
        text = each.get("when", "") + each.get("filter", "")
        assert re.search(r"[-+*/] \d", text), each
        assert "(eventTime" in text or "previous(eventTime" in text, each


def test_rule_1_alerts_for_each_marker_and_no_rule_for_other_payments() -> None:
    for engines in in_turns(5_000, 2).values():
        assert engines.alerts[1] == max(engines.alerts.values()) == 4


@pytest.mark.parametrize(("rules", "over"), [(250, 20), (1_000, 10)])
def test_many_rules_share_groupings_evenly_and_use_all_aggregators_in_each(rules: int, over: int) -> None:
    made = many(rules, over)
    by_grouping = Counter(tuple(each["groupingKeyNames"]) for each in made)
    kinds = {(tuple(each["groupingKeyNames"]), each["aggregatorFunctionType"]) for each in made}

    assert len({each["ruleId"] for each in made}) == rules
    assert len(by_grouping) == len(set(groupings(over)) | {("payeeId", "beneficiaryId")}) == over
    assert max(by_grouping.values()) - min(by_grouping.values()) <= 2
    assert len(kinds) >= 8 * (over - 1)


def test_throughput_requires_each_marker_once() -> None:
    load = replace(UNIFORM_500K, count=5_000, id_base=70)

    def alert(i: int, rule_id: int = 1) -> dict[str, object]:
        return {"ruleId": rule_id, "triggeringEvent": {"transactionId": load.id_base + i + 1}}

    alerts = [(1_000, alert(4_998)), (1_005, alert(4_999)), (1_001, alert(4_998, 2)), (900, alert(-10))]
    assert marker_times(alerts, load) == {4_998: 1_000, 4_999: 1_005}
    with pytest.raises(AssertionError, match="two alerts"):
        marker_times([*alerts, alerts[0]], load)


def test_percentiles_leave_out_the_first_seconds() -> None:
    seen = [(sent_ms, 900.0 if sent_ms < 2_000 else sent_ms / 1_000) for sent_ms in range(1_000, 12_000, 10)]
    found = watched(seen, skip_ms=1_000)

    assert found["measured"] == 1_000
    assert (found["p50_ms"], found["p99_ms"], found["max_ms"]) == (7.0, 11.9, 11.99)
    assert quantile([1.0, 2.0], 1.0) == 2.0


def test_flat_is_measured_against_the_third_before() -> None:
    series = [{"at_s": 10 * i, "mib": 50.0 if i < 3 else 100.0 if i < 6 else 110.0} for i in range(9)]
    found = summary(series, ["mib"])

    assert found["mib"] == 110
    assert found["mib_growth"] == pytest.approx(10)
    assert flatness([50, 45, 60]) == 90


def test_a_soak_samples_sizes_between_its_steps() -> None:
    steps: list[int] = []
    found = run(0.01, steps.append, lambda: {"rows": float(len(steps))})

    assert steps == list(range(found["steps"]))
    assert found["rows"] > 0
    assert found["rss_mib"] > 0
    assert {"at_s", "steps", "cpu_ms", "rows"} < found["series"][0].keys()


@pytest.mark.parametrize("name", ["soak_lists", "soak_plans"])
def test_a_soak_of_the_engine_runs(name: str) -> None:
    rows = next(rows for rows in ALL if rows.name == name)
    found = rows.measure(None, Scale(soak_minutes=0.02))  # type: ignore[arg-type]

    assert {figure.key for figure in rows.figures} <= found.keys()


def test_a_filled_store_has_a_whole_audit_log(scene: Scene) -> None:
    fill(scene.database, 100, 1_800_000_000_000)

    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, 100)


@pytest.mark.parametrize(
    ("figure", "values", "said"),
    [
        (Figure("a", "", "", at_least(10)), (10, 12), "reached"),
        (Figure("a", "", "", at_least(10)), (9, 11, 12), "reached by the median"),
        (Figure("a", "", "", at_most(10)), (9, 11, 12), "**not reached**"),
        (Figure("a", "", ""), (9,), ""),
    ],
)
def test_a_target_is_reached_when_every_run_reaches_it(figure: Figure, values: tuple[float, ...], said: str) -> None:
    assert verdict(figure, Spread(values)) == said


def test_numbers_are_formatted_for_people() -> None:
    assert [number(value) for value in (85_432.1, 99.94, 1.0, 0.0123)] == ["85,432", "99.9", "1", "0.012"]


def test_results_come_back_and_are_rendered_in_their_place(tmp_path: Path) -> None:
    speed = Figure("speed", "speed", "tx/s", at_least(2), promise=True)
    figures = (speed, Figure("cpu", "CPU", "ms", at_most(2)), Figure("pause", "Pause", "ms", at_most(2)))
    rows = Rows("one", "One", "How.", figures, lambda lab, scale: {})
    kept = Results(
        "one",
        "2024-01-01",
        "python -m bench",
        {"revision": "abc", "processor": "one core"},
        ({"speed": 1.0, "cpu": 1.0, "pause": 3.0}, {"speed": 3.0, "cpu": 1.0, "pause": 3.0}),
    )
    write(kept, tmp_path)
    found = read("one", tmp_path)

    assert found == kept
    assert read("two", tmp_path) is None
    assert spread(kept.runs, "other") is None
    parts = render([rows], {"one": kept})
    assert "| speed, tx/s | ≥ 2 | 2 (1 to 3), reached by the median |" in parts["figures"]
    assert "| Pause, ms | ≤ 2 | 3 (3 to 3), **not reached** |" in parts["figures"]
    assert "CPU" not in parts["figures"]
    page = "a\n<!-- figures: begin, generated -->\nold\n<!-- figures: end -->\nz"
    assert replaced(page, "figures", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no place"):
        replaced(page, "other", "new")


def test_names_are_unique_and_pages_have_all_places(project: Project) -> None:
    assert len({rows.name for rows in ALL}) == len(ALL)
    page = (project.root / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for name, part in render(ALL, {}).items():
        assert replaced(page, name, part)


def test_the_kernel_is_driven_with_every_mix() -> None:
    for mix in MIXES:
        assert evaluations_per_s(mix, content=100, measured=2_000) > 0


def test_retained_events_are_counted_once_a_grouping() -> None:
    found = retained(RULES_10, 5_000)

    assert found["events"] == 6 * 5_000
    assert found["memory"] > 0
    assert found["log"] > 0


STREAM = (
    b"retry: 1000\nid: 1-0\n\n"
    b'event: alert\nid: 2-0\ndata: {"alertId":"a: 1"}\n\n'
    b": ping\n\n"
    b'event: alerts\nid: 4-0\ndata: {"items":[{"alertId":"b"},{"alertId":"c"}],"count":2}\n\n'
)


@pytest.mark.parametrize("size", [1, 2, 7, len(STREAM)])
def test_events_do_not_depend_on_the_cuts_of_the_stream(size: int) -> None:
    events = Events()
    found = [each for i in range(0, len(STREAM), size) for each in events.feed(STREAM[i : i + size])]

    assert [(each.name, each.id, each.count()) for each in found] == [("alert", "2-0", 1), ("alerts", "4-0", 2)]
    assert [alert["alertId"] for each in found for alert in each.alerts()] == ["a: 1", "b", "c"]
    assert events.last_id == "4-0"


def test_a_reader_does_not_resume_after_an_incomplete_event() -> None:
    events = Events()
    events.feed(STREAM[:-1])

    assert events.last_id == "2-0"


def test_only_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "kernel", "--only", "state,nightly_w"]) == 0
    named = {line.split()[0] for line in capsys.readouterr().out.splitlines()}

    assert named == {"kernel", "state", "nightly_whatif"}


_SLOW_TO_END = """
import subprocess, time
from bench.ending import ending_children

with ending_children():
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    leaves_orphan = ["sh", "-c", "sleep 1000 >/dev/null & echo $!"]
    orphan = subprocess.check_output(leaves_orphan, start_new_session=True, text=True)
    try:
        print(child.pid, orphan.strip(), flush=True)
        time.sleep(1000)
    finally:
        print("draining", flush=True)
        time.sleep(1000)
"""


def test_a_second_interrupt_too_leaves_no_process(project: Project) -> None:
    bench = subprocess.Popen(
        [sys.executable, "-c", _SLOW_TO_END],
        cwd=project.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert bench.stdout is not None
    started = [psutil.Process(int(pid)) for pid in bench.stdout.readline().split()]
    bench.send_signal(signal.SIGINT)
    assert bench.stdout.readline() == "draining\n"
    bench.send_signal(signal.SIGINT)
    left, _ = bench.communicate(timeout=180)

    assert (left, bench.returncode) == ("", 130)
    assert len(started) == 2
    assert not [process for process in started if process.is_running()]


def test_pauses_of_a_jvm_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "gc.log"
    assert pauses(log) == {"gc_full": 0, "gc_longest_ms": 0.0}
    log.write_text(
        "[0.005s][info][gc] Using Serial\n"
        "[1.1s][info][gc] GC(0) Pause Young (Allocation Failure) 307M->20M(640M) 18.421ms\n"
        "[2.3s][info][gc] GC(1) Pause Full (Metadata GC Threshold) 40M->19M(640M) 512.700ms\n"
    )
    assert pauses(log) == {"gc_full": 1, "gc_longest_ms": 512.7}
    assert pauses_in(log) == [Pause(1.1, "Young", 18.421), Pause(2.3, "Full", 512.7)]
