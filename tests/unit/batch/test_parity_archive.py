"""Streams over midnight, through archive files and saved states between days, have the oracle's alerts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
import pytest

from fraud_rules.batch.archive.compaction import compact
from fraud_rules.batch.archive.erasing import erase_person
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.reevaluation.corrections import scores_of
from fraud_rules.batch.reevaluation.published import view_of
from fraud_rules.batch.reevaluation.run import (
    DueDay,
    around_warm_up,
    days_due,
    empty_result,
    evaluate,
    missed_days,
    prepare,
)
from fraud_rules.batch.reevaluation.summing import DayAlerts
from fraud_rules.errors import ArchiveDamaged, DayBusy, DayEmpty, DayNotArchived, DayTooOld, HistoryLost
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.nightly.archived import TRANSACTIONS, Site, over_midnight
from tests.support.nightly.evaluated_days import FAR_MS, evaluated, options
from tests.support.nightly.in_process import in_process
from tests.support.oracle import evaluate as oracle_of
from tests.support.oracle.day import completed, completed_decisions, identity
from tests.support.rules import count_rule
from tests.support.streams.generated import documents, warmed_documents
from tests.support.streams.runs import STREAMS, check_stream, described, stream_seeds

NULLABLE = load_schema("nullable")


def identities(found: DayAlerts) -> set[tuple[Any, ...]]:
    alerts = [json.loads(text) for text in (*found.live.values(), *found.shadow.values())]
    return {identity({**alert, "transactionId": alert["triggeringEvent"]["transactionId"]}) for alert in alerts}


def scored(document: Mapping[str, Any], found: DayAlerts) -> list[tuple[Any, int]]:
    scores = scores_of(view_of(text) for text in found.live.values())
    return _of_one_delivery(document, scores.items())


def wanted_scores(document: Mapping[str, Any], day: Day) -> list[tuple[Any, int]]:
    decisions = [each for each in completed_decisions(document, NULLABLE) if Day.of(each["eventTime"]) == day]
    return _of_one_delivery(document, ((each["transactionId"], each["score"]) for each in decisions))


def _of_one_delivery(document: Mapping[str, Any], scores: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """The scores without those of ids that were delivered more than once."""
    deliveries = Counter(step["tx"].get("transactionId") for step in document["steps"] if "tx" in step)
    return sorted((each for each in scores if deliveries[each[0]] == 1), key=str)


def wanted(document: Mapping[str, Any], day: Day) -> set[tuple[Any, ...]]:
    return {identity(alert) for alert in completed(document, NULLABLE) if Day.of(alert["windowEnd"]) == day}


def check_days(drawn: dict[str, Any], folder: Path, *, scores: bool) -> None:
    """Evaluate each day of a stream, and compare its alerts with the oracle's, and also its scores if asked."""
    document = over_midnight(drawn)
    site = Site.make(Path(mkdtemp(dir=folder)), document, NULLABLE)
    for day in site.archive():
        _, found = evaluated(site, day)
        assert identities(found) == wanted(document, day), described([str(day)], document)
        if scores:
            assert scored(document, found) == wanted_scores(document, day), described([str(day)], document)


@stream_seeds(STREAMS // 4)
def test_each_day_has_the_oracles_alerts(stream_seed: int, tmp_path: Path) -> None:
    check_stream(stream_seed, documents(), lambda drawn: check_days(drawn, tmp_path, scores=True))


@stream_seeds(STREAMS // 8)
def test_each_day_has_the_oracles_alerts_after_warm_ups(stream_seed: int, tmp_path: Path) -> None:
    check_stream(stream_seed, warmed_documents(), lambda drawn: check_days(drawn, tmp_path, scores=False))


@stream_seeds(STREAMS // 8)
def test_a_day_starts_from_the_corrected_end_of_the_day_before(stream_seed: int, tmp_path: Path) -> None:
    """The second day first: the day before is replayed for it. Then later data of the first day: both are due again."""

    def check(drawn: dict[str, Any]) -> None:
        document = over_midnight(drawn)
        site = Site.make(Path(mkdtemp(dir=tmp_path)), document, NULLABLE)
        site.archive(upto=len(document["batches"]) // 2)
        site.archive()
        days = site.store.latest().days(Table.TRANSACTIONS)
        if not days:
            return
        site.store.commit(compact(site.store, site.store.latest(), NULLABLE, 0).complete(FAR_MS))
        case, found = evaluated(site, days[-1])
        assert case.chain.before == tuple(days[:-1])
        assert identities(found) == wanted(document, days[-1]), described([], document)
        case, found = evaluated(site, days[-1])
        assert case.chain.before == () and identities(found) == wanted(document, days[-1]), described([], document)

    check_stream(stream_seed, documents(), check)


def a_site(tmp_path: Path, until_ms: int = FAR_MS) -> tuple[Site, Day]:
    day = Day.parse("2026-11-18")
    rule = count_rule(aggregateFieldName="points", limit=2, windowSeconds=60)
    steps: list[dict[str, Any]] = [{"at": day.start_ms, "rule": rule}]
    for number, at_ms in enumerate([day.start_ms + 1000, day.end_ms - 1000, day.end_ms + 1000]):
        steps.append({"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, "payeeId": 1}})
    late = {"transactionId": 9, "eventTime": day.end_ms - 500, "payeeId": 1}
    steps.append({"at": day.end_ms + 7_200_000, "tx": late})
    batches = [{"offsets": {"transactions": {"0": end}}, "pin": 1} for end in (3, 4)]
    site = Site.make(tmp_path, {"steps": steps, "batches": batches}, NULLABLE)
    site.archive(upto=1, until_ms=until_ms)
    return site, day


def test_days_that_receive_later_data_are_known(tmp_path: Path) -> None:
    site, day = a_site(tmp_path)
    before = [evaluated(site, each)[1] for each in (day, day.plus(1))]
    assert [len(found.live) for found in before] == [0, 1]
    site.archive()
    case = prepare(options(site, day.plus(1)), FAR_MS)
    assert case.chain.before == (day,), "the end of the first day no longer holds"
    assert days_due(site.store, site.schema, site.settings, day.end_ms) == [], "nothing was published of either"
    found, _ = evaluate(case, in_process, "later")
    assert [json.loads(text)["windowCount"] for text in found.live.values()] == [3]
    _, found = evaluated(site, day)
    assert [json.loads(text)["triggeringEvent"]["transactionId"] for text in found.live.values()] == [9]


def test_a_missed_night_is_evaluated_a_night_later(tmp_path: Path) -> None:
    site, day = a_site(tmp_path)
    next_night_ms, night_after_ms = day.plus(1).end_ms - 1, day.plus(1).end_ms
    assert missed_days(site.store, site.settings, next_night_ms) == [], "its own night is not over"
    assert missed_days(site.store, site.settings, night_after_ms) == [day]
    assert days_due(site.store, site.schema, site.settings, night_after_ms) == [DueDay(day, 0)]
    save_empty_result(site, day)
    assert missed_days(site.store, site.settings, night_after_ms) == []


def test_days_that_depend_on_erased_payments_are_named_and_not_due_again(tmp_path: Path) -> None:
    site, day = a_site(tmp_path)
    site.archive()
    for each in (day, day.plus(1)):
        evaluated(site, each)
        save_empty_result(site, each)
    assert [due.day for due in days_due(site.store, site.schema, site.settings, FAR_MS)] == [day, day.plus(1)]
    erased_ms = day.plus(1).end_ms
    assert erase_person(site.store, ["payeeId"], "2", erased_ms)["transactions"] == 0
    assert prepare(options(site, day), FAR_MS).erased == ()
    manifest = site.store.latest()
    file = manifest.of(Table.TRANSACTIONS, day)[0]
    site.store.commit(manifest.with_erased(file, [file], erased_ms))
    assert prepare(options(site, day), FAR_MS).erased == (day,)
    assert prepare(options(site, day.plus(1)), FAR_MS).erased == (day,), "its windows reach the erased day"
    assert days_due(site.store, site.schema, site.settings, FAR_MS) == []


def test_missed_days_are_due_a_few_at_a_time_and_only_recent_ones(tmp_path: Path) -> None:
    day = Day.parse("2026-11-18")
    ends = [day.plus(number).start_ms for number in range(40)]
    steps = [{"at": at_ms, "tx": {"transactionId": at_ms, "eventTime": at_ms, "payeeId": 1}} for at_ms in ends]
    batches = [{"offsets": {"transactions": {"0": len(steps)}}, "pin": 0}]
    site = Site.make(tmp_path, {"steps": steps, "batches": batches}, NULLABLE)
    site.archive()
    now_ms = day.plus(40).end_ms
    missed = missed_days(site.store, site.settings, now_ms)
    assert missed == [day.plus(number) for number in range(5, 40)]
    assert [due.day for due in days_due(site.store, site.schema, site.settings, now_ms)] == missed[:7]


def test_a_missed_day_without_the_history_that_it_needs_is_not_due(tmp_path: Path) -> None:
    site, day = a_site(tmp_path)
    manifest = site.store.latest()
    begun = {"version": manifest.version + 1, "starts": {TRANSACTIONS: {"0": 3}}, "began_ms": day.start_ms}
    site.store.commit(msgspec.structs.replace(manifest, **begun))
    now_ms = day.plus(2).end_ms
    assert missed_days(site.store, site.settings, now_ms) == [day, day.plus(1)]
    assert days_due(site.store, site.schema, site.settings, now_ms) == []


def save_empty_result(site: Site, day: Day) -> None:
    made = options(site, day)
    made.store.save_result(empty_result(made, FAR_MS, publishes=True), b"")


def test_a_damaged_state_is_named_and_recomputed(tmp_path: Path) -> None:
    site, day = a_site(tmp_path)
    evaluated(site, day)
    folder = options(site, day).store.page(day).parent
    (image,) = folder.glob("run-*/state-*")
    image.write_bytes(image.read_bytes()[:-3])
    with pytest.raises(ArchiveDamaged, match=r"state-0 .*remove .*state\.json"):
        evaluated(site, day.plus(1))
    (folder / "state.json").unlink()
    _, found = evaluated(site, day.plus(1))
    assert len(found.live) == 1


def test_a_day_that_cannot_be_evaluated_is_named(tmp_path: Path) -> None:
    site, day = a_site(tmp_path, until_ms=Day.parse("2026-11-20").start_ms)
    with pytest.raises(DayEmpty):
        prepare(options(site, day.plus(-1)), FAR_MS)
    with pytest.raises(DayNotArchived):
        prepare(options(site, day.plus(2)), FAR_MS)
    begun = msgspec.structs.replace(
        site.store.latest(),
        version=site.store.latest().version + 1,
        starts={TRANSACTIONS: {"0": 3}},
        began_ms=day.start_ms,
    )
    site.store.commit(begun)
    with pytest.raises(DayTooOld, match="begins on 2026-11-18"):
        prepare(options(site, day.plus(-1)), FAR_MS)
    with pytest.raises(HistoryLost, match="--incomplete-history"):
        prepare(options(site, day), FAR_MS)
    assert prepare(replace(options(site, day), incomplete_history=True), FAR_MS).chain.start is None
    store = options(site, day).store
    with store.exclusive(day), pytest.raises(DayBusy), store.exclusive(day):
        pass


def test_a_day_still_receiving_is_provisional(tmp_path: Path) -> None:
    day = Day.parse("2026-11-18")
    site, _ = a_site(tmp_path, until_ms=day.end_ms - 1)
    assert prepare(options(site, day), day.end_ms).provisional == "the day still receives data"
    with pytest.raises(DayNotArchived):
        prepare(options(site, day), day.end_ms + 3_600_000)


def at(day: Day, hours: float) -> int:
    return day.start_ms + int(hours * 3_600_000)


def paid(day: Day, number: int, hours: float, arrives: float | None = None) -> dict[str, Any]:
    tx = {"transactionId": number, "eventTime": at(day, hours), "payeeId": 1}
    return {"at": at(day, hours if arrives is None else arrives), "tx": tx}


def test_a_history_that_a_warm_up_added_counts_from_its_batch_on(tmp_path: Path) -> None:
    """Live and by night alike. A transaction that belongs before that time and arrives after it stays undecided."""
    day = Day.parse("2026-11-18")
    rule = count_rule(aggregateFieldName="points", limit=3, windowMinutes=360, warmUp=True)
    steps = [
        *(paid(day, number, 21 + number / 100) for number in (0, 1, 2)),
        {"at": at(day, 22), "rule": rule},
        paid(day, 3, 22.1),
        paid(day, 4, 22.2),  # the batch of this transaction adds the history
        paid(day, 5, 23),
        paid(day, 6, 22.15, arrives=23.1),
        paid(day, 7, 24.5),
    ]
    batches: list[dict[str, Any]] = [{"offsets": {"transactions": {"0": end}}, "pin": 1} for end in (4, 5, 8)]
    batches[1]["warmUps"] = [{"version": 0, "ends": {"0": 3}}]
    document = {"steps": steps, "batches": batches}
    live = {alert["transactionId"]: alert for alert in oracle_of(document, NULLABLE)["alerts"]}
    assert {number: each["windowCount"] for number, each in live.items()} == {4: 5, 5: 6, 7: 8}
    site = Site.make(tmp_path, document, NULLABLE)
    site.archive()
    for each, counts in ((day, {5: 7}), (day.plus(1), {7: 8})):  # with transaction 6, which arrived after 5
        case, found = evaluated(site, each)
        views = [view_of(text) for text in found.live.values()]
        decided = {view.transaction_id: view.window_count for view in views if not around_warm_up(view, case)}
        assert decided == counts
