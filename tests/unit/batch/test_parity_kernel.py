"""Generated streams: a re-evaluation corrects the live alerts to the oracle's alerts of the completed day."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from fraud_rules.batch.reevaluation.compare import AlertVerdict, compare
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import replay_recording
from tests.support.conformance import failing_cases, load_schema
from tests.support.nightly.corrected import corrected_alerts
from tests.support.oracle.day import completed, identity
from tests.support.streams.features import (
    ENTITIES,
    Features,
    previous_documents,
    with_any_features,
    with_features,
)
from tests.support.streams.generated import (
    calendar_documents,
    changing_documents,
    documents,
    documents_of_every_order,
    in_order,
)
from tests.support.streams.long import long_document
from tests.support.streams.runs import (
    STREAMS,
    Family,
    check_long,
    check_stream,
    described,
    stream_families,
    stream_seeds,
)

NULLABLE = load_schema("nullable")
ACCOUNTS = replace(NULLABLE, entities=ENTITIES)
SETTINGS = DetectorSettings()

Alerts = dict[str, dict[str, Any]]


def live_alerts(document: Mapping[str, Any], schema: TransactionSchema = NULLABLE) -> Alerts:
    """The alerts that the running detector publishes."""
    answer = replay_recording(Recording.of_document(document), schema, SETTINGS)
    return {alert["alertId"]: alert for alert in answer["alerts"]}


def corrected(document: Mapping[str, Any], slice_rows: int, schema: TransactionSchema = NULLABLE) -> Alerts:
    """The alerts of a re-evaluation of the stream in slices, with a saved and restored state between slices."""
    found = corrected_alerts(document, slice_rows, schema, SETTINGS)
    return {alert.alert_id: json.loads(alert.json) for alert in found}


def of_transaction(alerts: Alerts) -> set[tuple[Any, ...]]:
    return {identity(alert if "transactionId" in alert else {**alert, **_id_of(alert)}) for alert in alerts.values()}


def _id_of(alert: Mapping[str, Any]) -> dict[str, Any]:
    return {"transactionId": alert["triggeringEvent"]["transactionId"]}


def disagreement(document: Mapping[str, Any], slice_rows: int = 7, schema: TransactionSchema = NULLABLE) -> list[str]:
    """List the differences of (live alerts - RETRACTED + ADDED) from the oracle's alerts."""
    live, wanted = live_alerts(document, schema), corrected(document, slice_rows, schema)
    diff = compare(live.keys(), wanted.keys())
    kept = {key: alert for key, alert in live.items() if diff.get(key) is not AlertVerdict.RETRACTED}
    kept |= {key: wanted[key] for key, verdict in diff.items() if verdict is AlertVerdict.ADDED}
    oracle = {identity(alert) for alert in completed(document, schema)}
    got = of_transaction(kept)
    return [f"missing {each}" for each in sorted(oracle - got, key=str)] + [
        f"too much {each}" for each in sorted(got - oracle, key=str)
    ]


def check(document: dict[str, Any], schema: TransactionSchema = NULLABLE) -> None:
    differences = disagreement(document, schema=schema)
    assert not differences, described(differences, document)


def test_the_corrected_alerts_of_the_conformance_cases_are_the_oracles() -> None:
    assert failing_cases(lambda case: disagreement(case.document, schema=load_schema(case.schema))) == {}


FAMILIES = {
    "plain": Family(documents(), STREAMS, NULLABLE),
    "calendars turn": Family(calendar_documents(), STREAMS // 20, NULLABLE),
    "rules and lists change": Family(changing_documents(), STREAMS // 20, NULLABLE),
    "maps": Family(with_features(documents(), Features(maps=True)), STREAMS // 20, NULLABLE),
    "previous payments": Family(previous_documents(), STREAMS // 20, NULLABLE),
    "long windows": Family(with_features(documents(), Features(resolutions=True)), STREAMS // 20, NULLABLE),
    "entities": Family(
        with_features(documents(), Features(entities=True, own=True, conditions=True)),
        STREAMS // 20,
        ACCOUNTS,
    ),
    "all members together": Family(with_any_features(documents()), STREAMS, ACCOUNTS),
}


@stream_families(FAMILIES)
def test_live_alerts_corrected_are_the_oracles(stream_seed: int, family: Family) -> None:
    check_stream(stream_seed, family.streams, lambda document: check(document, family.schema))


def test_a_night_reads_changes_of_a_rule_and_its_list_in_many_orders() -> None:
    for document in islice(documents_of_every_order(), 0, None, 5):
        check(document)


@stream_seeds(STREAMS // 20)
def test_live_alerts_corrected_are_the_oracles_for_long(stream_seed: int) -> None:
    check_long(long_document(stream_seed, transactions=100 + 100 * (stream_seed % 4)), check)


@stream_seeds(STREAMS // 10)
def test_a_day_in_order_needs_no_correction(stream_seed: int) -> None:
    def check_in_order(drawn: dict[str, Any]) -> None:
        document = in_order(drawn)
        assert live_alerts(document).keys() == corrected(document, 9).keys(), described([], document)

    check_stream(stream_seed, documents(partitions=1, cut=False), check_in_order)
