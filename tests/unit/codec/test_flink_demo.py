"""The Flink demo's own records through the codecs: all are accepted with the demo's meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fraud_rules.codec.rules.codec import encode_document, parse_rule_record, read_entry
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.errors import RuleRejected
from fraud_rules.kafka.declared import load_topics
from fraud_rules.model.limits import RecordLimits, RuleLimits
from fraud_rules.model.rule import Control, Rule, RuleDeletion
from fraud_rules.model.schema import TransactionSchema
from tests.support.places import ROOT
from tests.support.records.flink_demo import (
    CONTROLS,
    DEFAULT_RULES,
    DELETIONS,
    FORM_RULES,
    TEXT_RULES,
    TRANSACTIONS,
    DemoRule,
    DemoTransaction,
)

CONFIG = ROOT / "config"
SCHEMA = TransactionSchema.load(CONFIG / "schema.yaml")
LIMITS = RuleLimits()
DEFAULT = json.loads(DEFAULT_RULES[0].record)


@pytest.mark.parametrize("rule", [*DEFAULT_RULES, *FORM_RULES, *TEXT_RULES], ids=lambda rule: rule.says)
def test_every_rule_is_accepted(rule: DemoRule) -> None:
    parsed = parse_rule_record(rule.record, SCHEMA, LIMITS)
    assert isinstance(parsed, Rule)
    assert (parsed.rule_id, rule_sentence(parsed, SCHEMA)) == (rule.rule_id, rule.says)


@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.says)
def test_whole_numbers_are_numbers_wherever_the_rule_is_written_again(rule: DemoRule) -> None:
    parsed = parse_rule_record(rule.record, SCHEMA, LIMITS)
    assert isinstance(parsed, Rule)
    written = json.loads(encode_document(parsed.document))
    given = json.loads(rule.record)
    assert written == given | {"ruleId": rule.rule_id, "windowMinutes": int(given["windowMinutes"])}


@pytest.mark.parametrize(("record", "rule_id"), DELETIONS)
def test_every_deletion_is_accepted(record: bytes, rule_id: int) -> None:
    assert parse_rule_record(record, SCHEMA, LIMITS) == RuleDeletion(rule_id)


@pytest.mark.parametrize(("record", "kind"), CONTROLS)
def test_every_control_is_accepted(record: bytes, kind: str) -> None:
    parsed = parse_rule_record(record, SCHEMA, LIMITS)
    assert isinstance(parsed, Control)
    assert parsed.type.value == kind


@pytest.mark.parametrize("tx", TRANSACTIONS)
def test_every_transaction_is_accepted_exactly(tx: DemoTransaction) -> None:
    decoded = decode_transactions(RawTransactions.of([tx.record], [0], [0], [tx.values[1]]), SCHEMA, RecordLimits(0))
    assert decoded.rejects == []
    row = decoded.batch.row(0, SCHEMA)
    names = ("transactionId", "eventTime", "payeeId", "beneficiaryId", "paymentType", "paymentAmount")
    assert tuple(str(row[name]) for name in names) == tuple(map(str, tx.values))


@pytest.mark.parametrize(
    ("rule_id", "says"),
    [
        ("0", "must be a whole number from 1 to 9223372036854775807, not 0"),
        ("-1", "not -1"),
        ("9223372036854775808", "not 9223372036854775808"),
        ("1.0", "not '1.0'"),
        ("0x1", "not '0x1'"),
        ("", "not ''"),
        ("٣", "not"),
    ],
)
def test_text_that_is_no_id_is_refused(rule_id: str, says: str) -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_rule_record(json.dumps(DEFAULT | {"ruleId": rule_id}).encode(), SCHEMA, LIMITS)
    assert rejected.value.rule_id is None
    (reason,) = rejected.value.reasons
    assert reason.field == "ruleId"
    assert says in reason.message


@pytest.mark.parametrize("rule_id", ["7", 7])
def test_a_rejection_names_the_rule_where_its_id_can_be_read(rule_id: object) -> None:
    record = json.dumps(DEFAULT | {"ruleId": rule_id, "windowMinutes": "soon"}).encode()
    entry = read_entry(3, 1_000, record, SCHEMA, LIMITS)
    assert (entry.change, entry.rule_id) == (None, 7)
    assert [reason.field for reason in entry.reasons] == ["windowMinutes"]


def test_the_page_about_the_demo_renames_the_topic_in_one_file(tmp_path: Path) -> None:
    page = (CONFIG.parent / "examples" / "flink-demo.md").read_text(encoding="utf-8")
    declared = page.split("In `config/topics.yaml`:")[1].split("```")[1]
    (tmp_path / "topics.yaml").write_text(f"topics:\n{declared}    retention: 7d\n", encoding="utf-8")
    (tmp_path / "detector.yaml").write_text((CONFIG / "detector.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    settings = DetectorSettings.load(tmp_path / "detector.yaml", {})
    assert settings.topics == TopicNames(transactions="livetransactions")
    assert [topic.name for topic in load_topics(tmp_path / "topics.yaml", environ={})] == ["livetransactions"]
