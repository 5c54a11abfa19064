"""Evaluates a day from the archive: what is known before, the days it rests on, the day itself. No broker, no Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.basis import Basis, SavedState
from fraud_rules.batch.reevaluation.chain import (
    Chain,
    basis_of,
    chain_of,
    check_archived,
    check_history,
    is_due,
    provisional,
    reach_of,
)
from fraud_rules.batch.reevaluation.compare import Verdict
from fraud_rules.batch.reevaluation.cuts import Cuts
from fraud_rules.batch.reevaluation.daystore import DayStore
from fraud_rules.batch.reevaluation.evidence import Evidence
from fraud_rules.batch.reevaluation.part import DayWork, PartAccount, read_alerts, run_part, shares
from fraud_rules.batch.reevaluation.published import check_versions, judged_ids, unknown_of
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.batch.reevaluation.summing import Difference, Findings
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.model.day import Day, days_between
from fraud_rules.model.ruleset import LogEntry
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms

__all__ = ["Case", "DayOptions", "Spread", "days_due", "decided", "evaluate", "in_process", "nothing_found", "prepare"]

Spread = Callable[[DayWork, Sequence[tuple[int, ...]]], Sequence[PartAccount]]
"""Runs the shares of a work, wherever, and gives their accounts."""

DEFAULT_TASKS = 2
MOST_LOOKED_AT = 35
"""Days that are looked at for later data."""


@dataclass(frozen=True, slots=True)
class DayOptions:
    """Which day to evaluate, and from what. `tasks`: parts of the key groups; more of them take less memory each.

    `incomplete_history` goes on where windows reach back behind the archive.
    """

    day: Day
    archive: ArchiveStore
    settings: DetectorSettings
    schema: TransactionSchema
    tasks: int = DEFAULT_TASKS
    incomplete_history: bool = False

    @property
    def store(self) -> DayStore:
        """Where results and states are kept."""
        return DayStore(self.archive)


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known before the evaluation. `provisional` says why nothing may be published, if so."""

    options: DayOptions
    evidence: Evidence
    entries: tuple[LogEntry, ...]
    cuts: Cuts
    basis: Basis
    chain: Chain
    provisional: str | None


def prepare(options: DayOptions, now_ms: int) -> Case:
    """Look at the archive. Raises DayNotArchived, DayEmpty, DayTooOld, HistoryLost, ArchiveDamaged."""
    day, settings = options.day, options.settings
    manifest, topic = options.archive.latest(), settings.topics.transactions
    check_archived(manifest, day, settings, now_ms)
    evidence = Evidence(options.archive, manifest, options.schema, settings)
    entries = evidence.entries()
    reach = reach_of(entries, settings)
    feeds = evidence.feeds(days_between(day.plus(-reach), day), None)
    cuts = evidence.cuts(min(feeds))
    basis = basis_of(evidence.feeds(feeds, cuts), settings)
    chain = chain_of(day, basis, reach, options.store.state)
    if not options.incomplete_history:
        check_history(manifest, day, reach, chain, topic)
    unjudged = manifest.rows(Table.TRANSACTIONS, day) - basis.rows.get(str(day.number), 0)
    return Case(options, evidence, entries, cuts, basis, chain, provisional(manifest, day, settings, unjudged, now_ms))


def nothing_found(options: DayOptions, now_ms: int, *, publishes: bool) -> DayResult:
    """The result of a day without a transaction; kept, it tells a day that gets its first ones later."""
    settings = options.settings
    basis = Basis(settings.key_groups, settings.max_out_of_orderness_ms, {})
    reason = provisional(options.archive.latest(), options.day, settings, 0, now_ms)
    return DayResult.empty(options.day, basis, reason, now_ms, publishes=publishes)


def evaluate(case: Case, spread: Spread, run: str) -> tuple[Findings, PartAccount]:
    """Replay the days before where that must be, then the day: what fires, and the account of its transactions.

    The end of each day is kept. `run` names this run. Raises ArchiveDamaged, StorageFull, and what `spread` raises.
    """
    store, chain = case.options.store, case.chain
    start = chain.start
    for day in chain.before:
        with store.alone(day, wait=True):
            _evaluate(case, day, start, spread, run)
            start = _kept(store, day)
    folder, accounts = _evaluate(case, case.options.day, start, spread, run)
    return Findings.of(read_alerts(folder, accounts)), accounts[0]


def decided(case: Case, different: Sequence[Difference]) -> tuple[list[Difference], frozenset[str]]:
    """The differences, without alerts of transactions that are not archived yet; and the ids of these.

    Raises RuleLogForeign.
    """
    candidates = {each.view.alert_id: each.view for each in different if each.verdict is Verdict.RETRACTED}
    if not candidates:
        return list(different), frozenset()
    evidence = case.evidence
    undecided = frozenset(unknown_of(candidates, judged_ids(evidence.store, evidence.manifest, case.options.day)))
    check_versions((view for alert_id, view in candidates.items() if alert_id not in undecided), case.entries)
    return [each for each in different if each.view.alert_id not in undecided], undecided


def in_process(work: DayWork, parts: Sequence[tuple[int, ...]]) -> Sequence[PartAccount]:
    """Run the shares here, one after the other."""
    return [account for part in parts for account in run_part(work, part) if account is not None]


def _evaluate(
    case: Case, day: Day, start: tuple[Day, SavedState] | None, spread: Spread, run: str
) -> tuple[Path, Sequence[PartAccount]]:
    """Replay one day from the end of the one before it, and keep its own end."""
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
    )
    try:
        accounts = sorted(spread(work, shares(options.settings.key_groups, options.tasks)), key=_first_group)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    rows = {number: n for number, n in case.basis.rows.items() if int(number) <= day.number}
    store.keep_state(day, folder, msgspec.structs.replace(case.basis, rows=rows))
    return folder, accounts


def _kept(store: DayStore, day: Day) -> tuple[Day, SavedState]:
    state = store.state(day)
    if state is None:
        raise FraudError(f"the end of {day}, just kept, is gone: is somebody cleaning up?")
    return day, state


def _first_group(account: PartAccount) -> int:
    return account.key_groups[0]


def days_due(archive: ArchiveStore, schema: TransactionSchema, settings: DetectorSettings) -> list[DayResult]:
    """What was found of the days that are to be evaluated again, ascending: they have received data since they were
    published, or rest on one that has, or were provisional and no longer are."""
    manifest, store = archive.latest(), DayStore(archive)
    evaluated = store.evaluated_days()[-MOST_LOOKED_AT:]
    if not evaluated:
        return []
    evidence = Evidence(archive, manifest, schema, settings)
    reach = reach_of(evidence.entries(), settings)
    feeds = evidence.feeds(days_between(evaluated[0].plus(-reach), evaluated[-1]), None)
    if not feeds:
        return []
    now = basis_of(evidence.feeds(feeds, evidence.cuts(min(feeds))), settings)
    results = [result for day in evaluated if (result := store.result(day)) is not None]
    return [result for result in results if is_due(result, now, reach, manifest, settings)]
