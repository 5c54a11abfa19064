"""The answers of `fraud why` about all payments of generated streams, compared with the oracle's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis.strategies import SearchStrategy

from fraud_rules.batch.proof.answers import PaymentAnswer, answers_of
from fraud_rules.batch.proof.builder import PaymentLog
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import settings_of_recording
from tests.support.conformance import load_schema
from tests.support.outcomes import ExpectedAnswer, expected_answers
from tests.support.proofs import written_alerts
from tests.support.streams.features import ENTITIES, Features, with_features
from tests.support.streams.generated import documents
from tests.support.streams.runs import STREAMS, described, drawn, stream_seeds

NULLABLE = load_schema("nullable")
THIRD_EDITION = Features(
    limits=True, rollout=True, calendars=True, maps=True, previous=True, conditions=True, entities=True, own=True
)
NOT_HOLDING = ("NO_VALUE", "BELOW_LIMIT", "CONDITIONS")


def differences(document: dict[str, Any], schema: TransactionSchema, every: int) -> list[str]:
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    log, alerts = PaymentLog(recording, schema, settings), written_alerts(recording, schema, settings)
    places = {(int(log.decoded.partition[i]), int(log.decoded.offset[i])): i for i in range(len(log.decoded))}
    found = []
    for number, expected in enumerate(expected_answers(document, schema)):
        if number % every == 0:
            answers = answers_of(log, places[expected.partition, expected.offset], expected.rule_id, alerts)
            answer = next((each for each in answers if each.role == expected.role), None)
            if answer is None or not agrees(answer, expected):
                found.append(f"{expected}: {answer and (answer.outcome.name, answer.value, answer.count)}")
    return found


def agrees(answer: PaymentAnswer, expected: ExpectedAnswer) -> bool:
    name = "NOT_HOLDING" if answer.outcome.name in NOT_HOLDING else answer.outcome.name
    same = (name, answer.value, answer.count) == (expected.outcome, expected.value, expected.count)
    return same if expected.count is not None else name == expected.outcome


def check(stream_seed: int, strategy: SearchStrategy[Any], schema: TransactionSchema) -> None:
    document = drawn(stream_seed, strategy)
    found = differences(document, schema, every=5)
    assert not found, described(found, document)


@stream_seeds(STREAMS // 20)
def test_answers_about_two_editions_are_those_of_the_oracle(stream_seed: int) -> None:
    check(stream_seed, documents(), NULLABLE)


@stream_seeds(STREAMS // 20)
def test_answers_about_the_third_edition_are_those_of_the_oracle(stream_seed: int) -> None:
    check(stream_seed, with_features(documents(), THIRD_EDITION), replace(NULLABLE, entities=ENTITIES))
