"""Evaluates a day from the archive, after the earlier days that affect it. Needs no broker and no Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.archive.place import ArchivePath, remove_tree
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.basis import Basis, SavedState
from fraud_rules.batch.reevaluation.chain import (
    ReplayPlan,
    basis_of,
    chain_of,
    check_archived,
    check_history,
    check_same_topic,
    is_due,
    provisional,
    reach_of,
)
from fraud_rules.batch.reevaluation.compare import AlertVerdict
from fraud_rules.batch.reevaluation.cuts import Cuts, mark_rejected
from fraud_rules.batch.reevaluation.daystore import DayStore
from fraud_rules.batch.reevaluation.evidence import ArchivedLogs
from fraud_rules.batch.reevaluation.part import DayWork, PartAccount, read_alerts, shares
from fraud_rules.batch.reevaluation.published import AlertView, archived_ids, check_versions, unknown_of
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.batch.reevaluation.summing import AlertDifference, DayAlerts
from fraud_rules.batch.reevaluation.warm_ups import AddedWarmUp, added_warm_ups, is_undecided
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError, HistoryLost
from fraud_rules.model.day import Day, days_between
from fraud_rules.model.rule import Rule
from fraud_rules.model.rule_names import names_rules
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms

EvaluateShares = Callable[[DayWork, Sequence[tuple[int, ...]]], Sequence[PartAccount]]
"""Evaluates the shares of a day, here or on Spark, and returns their accounts. A share is a set of key groups."""

DEFAULT_TASKS = 2
MAX_DAYS_CHECKED = 35
"""How many of the newest evaluated days are checked for later data, and how many past days for a result."""

MAX_MISSED_AT_ONCE = 7
"""How many missed days are due at once, so that the next night does not wait for all of them."""


@dataclass(frozen=True, slots=True)
class DayOptions:
    """The day to evaluate, and its inputs. `tasks` is the number of shares; more shares need
    less memory each.

    `incomplete_history` allows a day whose windows begin before the archive does.
    """

    day: Day
    archive: ArchiveStore
    settings: DetectorSettings
    schema: TransactionSchema
    tasks: int = DEFAULT_TASKS
    incomplete_history: bool = False

    @property
    def store(self) -> DayStore:
        """The store of results and states."""
        return DayStore(self.archive)


@dataclass(frozen=True, slots=True)
class DueDay:
    """A day to evaluate. `evaluated_ms` is the time of its last evaluation, 0 if it was missed."""

    day: Day
    evaluated_ms: int


@dataclass(frozen=True, slots=True)
class DayCase:
    """The inputs of an evaluation. `provisional` is the reason why the day is provisional, None if it is not.
    `warm_ups` are those whose histories the detector has added. An erasure removed payments of the days `erased`, on
    which the result depends."""

    options: DayOptions
    evidence: ArchivedLogs
    entries: tuple[LogEntry, ...]
    cuts: Cuts
    basis: Basis
    chain: ReplayPlan
    provisional: str | None
    warm_ups: tuple[AddedWarmUp, ...] = ()
    erased: tuple[Day, ...] = ()


def prepare(options: DayOptions, now_ms: int) -> DayCase:
    """Read the inputs from the archive. Raises DayNotArchived, DayEmpty, DayTooOld, HistoryLost, ArchiveDamaged."""
    day, settings = options.day, options.settings
    manifest, topic = options.archive.latest(), settings.topics.transactions
    check_archived(manifest, day, settings, now_ms)
    evidence = ArchivedLogs(options.archive, manifest, options.schema, settings)
    entries = evidence.entries()
    evaluated = evidence.evaluated()
    timeline = RuleTimeline(mark_rejected(entries, evaluated.rejected))
    reach = reach_of(timeline, day, settings)
    feeds = evidence.feeds(days_between(day.plus(-reach), day))
    basis = basis_of(feeds, evaluated.ends, settings)
    chain = chain_of(day, basis, reach, options.store.state)
    if not options.incomplete_history:
        check_history(manifest, day, reach, chain, topic)
    unevaluated = manifest.rows(Table.TRANSACTIONS, day) - basis.rows.get(str(day.number), 0)
    reason = provisional(manifest, day, settings, unevaluated, now_ms)
    # An earlier warm-up can leave alerts of the day undecided.
    warms = any(isinstance(entry.change, Rule) and entry.change.warm_up for entry in entries)
    cuts = evidence.cuts(min(feeds) if warms else min((*chain.before, day)), day, evaluated.ends)
    if not options.incomplete_history:
        check_same_topic(cuts.topic_began_ms, day, reach, chain)
    warm_ups = added_warm_ups(timeline, cuts, manifest, settings)
    erased = tuple(manifest.erased_days(day.plus(-reach), day))
    return DayCase(options, evidence, entries, cuts, basis, chain, reason, warm_ups, erased)


def empty_result(options: DayOptions, now_ms: int, *, publishes: bool) -> DayResult:
    """The result of a day without transactions. It is saved, so that later transactions make the day due."""
    settings = options.settings
    basis = Basis(settings.key_groups, settings.max_out_of_orderness_ms, {})
    reason = provisional(options.archive.latest(), options.day, settings, 0, now_ms)
    return DayResult.empty(options.day, basis, reason, now_ms, publishes=publishes)


def evaluate(case: DayCase, evaluate_shares: EvaluateShares, run: str) -> tuple[DayAlerts, PartAccount]:
    """Evaluate the necessary earlier days and then the day. Return its alerts, and the account of its transactions.

    The end state of each day is saved. `run` names this run. Raises ArchiveDamaged, StorageFull, and the errors of
    `evaluate_shares`.
    """
    store, chain = case.options.store, case.chain
    start = chain.start
    for day in chain.before:
        with store.exclusive(day, wait=True):
            _evaluate(case, day, start, evaluate_shares, run)
            start = _saved_state(store, day)
    folder, accounts = _evaluate(case, case.options.day, start, evaluate_shares, run)
    return DayAlerts.of(read_alerts(folder, accounts)), accounts[0]


def split_undecided(
    case: DayCase, differences: Sequence[AlertDifference]
) -> tuple[list[AlertDifference], frozenset[str]]:
    """Split off the undecided differences: retracted alerts whose transactions are not archived yet, and alerts around
    the time at which a warm-up was added.

    Returns the other differences, and the ids of the undecided alerts.

    Raises RuleLogForeign.
    """
    warmed = frozenset(each.view.alert_id for each in differences if around_warm_up(each.view, case))
    differences = [each for each in differences if each.view.alert_id not in warmed]
    candidates = {each.view.alert_id: each.view for each in differences if each.verdict is AlertVerdict.RETRACTED}
    if not candidates:
        return list(differences), warmed
    evidence = case.evidence
    undecided = frozenset(unknown_of(candidates, archived_ids(evidence.store, evidence.manifest, case.options.day)))
    check_versions((view for alert_id, view in candidates.items() if alert_id not in undecided), case.entries)
    return [each for each in differences if each.view.alert_id not in undecided], undecided | warmed


def around_warm_up(view: AlertView, case: DayCase) -> bool:
    """Whether the evaluation of a day cannot judge an alert, because a warm-up was added at about its time."""
    rule = next((entry.change for entry in case.entries if entry.version == view.rule_version), None)
    if not isinstance(rule, Rule):
        return False
    return any(
        added.request.fields == rule.grouping
        and is_undecided(added, rule, view.event_time, view.ingestion_time, case.options.settings)
        for added in case.warm_ups
    )


def _evaluate(
    case: DayCase, day: Day, start: tuple[Day, SavedState] | None, evaluate_shares: EvaluateShares, run: str
) -> tuple[ArchivePath, Sequence[PartAccount]]:
    """Evaluate one day from the end state of an earlier day, and save its end state."""
    options, store = case.options, case.options.store
    folder = store.new_folder(day, run)
    work = DayWork(
        options.archive,
        day,
        tuple(case.evidence.manifest.of(Table.TRANSACTIONS, day)),
        options.schema,
        options.settings,
        case.entries,
        case.cuts,
        start,
        folder,
        now_ms(),
        tuple(each for each in case.warm_ups if day.start_ms <= each.at_ms < day.end_ms),
    )
    tasks = 1 if names_rules(work.entries) else options.tasks
    try:
        accounts = sorted(evaluate_shares(work, shares(options.settings.key_groups, tasks)), key=_first_group)
    except BaseException:
        remove_tree(folder)
        raise
    rows = {number: n for number, n in case.basis.rows.items() if int(number) <= day.number}
    store.keep_state(day, folder, msgspec.structs.replace(case.basis, rows=rows))
    return folder, accounts


def _saved_state(store: DayStore, day: Day) -> tuple[Day, SavedState]:
    state = store.state(day)
    if state is None:
        raise FraudError(f"the saved state of {day} disappeared: does another process delete files there?")
    return day, state


def _first_group(account: PartAccount) -> int:
    return account.key_groups[0]


def days_due(archive: ArchiveStore, schema: TransactionSchema, settings: DetectorSettings, now_ms: int) -> list[DueDay]:
    """The days that must be evaluated again, and the oldest missed days, ascending.

    A published day is due if it, or a day that affects it, has received data since. A provisional day is due once it is
    not provisional anymore. A missed day without the history that it needs is not due, because its evaluation fails.
    A day with an erased one within its reach is not due again, because nothing of it is published.
    """
    manifest, store = archive.latest(), DayStore(archive)
    evaluated = store.evaluated_days()[-MAX_DAYS_CHECKED:]
    missed = _missed(manifest, store, settings, now_ms)
    checked = sorted({*evaluated, *missed})
    if not checked or not manifest.of(Table.TRANSACTIONS):
        return []
    evidence = ArchivedLogs(archive, manifest, schema, settings)
    known = evidence.evaluated()
    timeline = RuleTimeline(mark_rejected(evidence.entries(), known.rejected))
    reaches = {day: reach_of(timeline, day, settings) for day in checked}
    first = min(day.plus(-reach) for day, reach in reaches.items())
    current = basis_of(evidence.feeds(days_between(first, checked[-1])), known.ends, settings)
    results = [(day, result) for day in evaluated if (result := store.result(day)) is not None]
    again = [
        DueDay(day, result.evaluated_ms)
        for day, result in results
        if not manifest.erased_days(day.plus(-reaches[day]), day)
        and is_due(result, current, reaches[day], manifest, settings)
    ]
    new: list[DueDay] = []
    if missed:
        began_ms = evidence.cuts(first, missed[-1], known.ends).topic_began_ms
        for day in missed:
            chain = chain_of(day, current, reaches[day], store.state)
            if _has_history(manifest, day, reaches[day], chain, began_ms, settings.topics.transactions):
                new.append(DueDay(day, 0))
    return sorted([*again, *new[:MAX_MISSED_AT_ONCE]], key=attrgetter("day"))


def missed_days(archive: ArchiveStore, settings: DetectorSettings, now_ms: int) -> list[Day]:
    """The archived days without a result that ended more than a day ago, ascending, of the last days.

    The night after a day evaluates it. So a day is missed only once that night is over.
    """
    return _missed(archive.latest(), DayStore(archive), settings, now_ms)


def _missed(manifest: Manifest, store: DayStore, settings: DetectorSettings, now_ms: int) -> list[Day]:
    newest = Day.of(min(now_ms, manifest.complete_until_ms) - settings.max_out_of_orderness_ms).plus(-1)
    last = min(newest, Day.of(now_ms).plus(-2))
    evaluated = set(store.evaluated_days())
    days = manifest.days(Table.TRANSACTIONS)
    return [day for day in days if last.plus(-MAX_DAYS_CHECKED) < day <= last and day not in evaluated]


def _has_history(manifest: Manifest, day: Day, reach: int, chain: ReplayPlan, began_ms: int | None, topic: str) -> bool:
    try:
        check_history(manifest, day, reach, chain, topic)
        check_same_topic(began_ms, day, reach, chain)
    except HistoryLost:
        return False
    return True
