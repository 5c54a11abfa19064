"""The rule log of a process: the same rules, reasons and digests as if every record had been decoded at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.errors import BrokerUnavailable, Reason, TopicUnsuitable
from fraud_rules.kafka.reader import Record
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.log_entry import LogEntry, UndecodedRule
from fraud_rules.model.ruleset import RuleTimeline
from tests.support.rules import DEMO_RULE, LIMITS, SCHEMA, record

LIMITS_OF_RELEASES = (
    LIMITS,
    replace(LIMITS, max_window_minutes=10),
    replace(LIMITS, max_fields=1, max_filter_tokens=2),
    replace(LIMITS, max_record_bytes=280, max_members=9),
)
OVER_BUDGET = [Reason("windowMinutes", "too wide")]


@dataclass(frozen=True)
class Topic:
    """The records of a topic in memory. Their append times go back and forth."""

    values: Sequence[bytes | None]

    def read(self, start: int, end: int) -> Iterator[Record]:
        for offset in range(start, end):
            yield Record(offset, 1_000 + 10 * offset - 25 * (offset % 3), None, self.values[offset])


def members(**values: object) -> bytes:
    return json.dumps({**DEMO_RULE, **values}).encode()


RULES = st.builds(
    members,
    ruleId=st.sampled_from([1, 1, 2, 2, 3, "2", 2.0, 0, None]),
    ruleState=st.sampled_from(["ACTIVE", "ACTIVE", "PAUSE", "SHADOW", "DELETE", "CONTROL", "active"]),
    groupingKeyNames=st.sampled_from(
        [["payeeId"], ["payeeId"], ["payerId"], ["payeeId", "beneficiaryId"], [], ["payeeId", "payerId"], ["x"], "x"]
    ),
    windowMinutes=st.sampled_from([5, 20, 20, "20", 0, None]),
    filter=st.sampled_from([None, None, "payeeId = 1", "payeeId = 1 and paymentAmount > 2", "payeeId ="]),
    disabled=st.sampled_from([None, None, None, False, True, "no"]),
    description=st.sampled_from([None, 'é"\\', "x" * 100]),
)
OTHERS = st.one_of(
    st.sampled_from(
        [
            b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)",
            b'{"ruleId": 1, "ruleState": "DELETE"}',
            b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}',
            b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL_STOP"}',
            b'{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}',
            members()[:-1] + b', "ruleId": 2}',
            members()[:-1] + b', "rule\\u0049d": 2}',
            members()[:-1] + b', "\\u0064isabled": true}',
            b"\t" + members(ruleId=2) + b"\n",
            b"\xef\xbb\xbf" + members(),
            members(limit=LIMITS.max_limit_digits)[:-1] + b', "name": "\xff"}',
            None,
        ]
    ),
    st.binary(max_size=20),
)
VALUES = st.lists(st.one_of(RULES, RULES, RULES, OTHERS), max_size=14)


@given(VALUES, st.sampled_from(LIMITS_OF_RELEASES), st.lists(st.integers(0, 14), max_size=3), st.data())
def test_a_log_has_the_rules_and_reasons_of_its_decoded_records(
    values: list[bytes | None], limits: RuleLimits, cuts: list[int], data: st.DataObject
) -> None:
    topic, refused = Topic(values), dict.fromkeys(data.draw(st.sets(st.integers(0, 14))), OVER_BUDGET)
    log = RuleLog(topic.read, SCHEMA, limits)
    for cut in sorted(cuts):
        log.up_to(min(cut, len(values)), refused)
    timeline = log.up_to(len(values), refused)

    decoded = RuleTimeline(_decoded(topic, limits, refused), len(values))
    for count in data.draw(st.permutations(range(len(values) + 1))):
        assert timeline.rule_set(count) == decoded.rule_set(count)
    for entry, expected in zip(timeline.entries, decoded.entries, strict=True):
        assert (entry.version, entry.append_ms, entry.time_ms) == (
            expected.version,
            expected.append_ms,
            expected.time_ms,
        )
        assert (entry.outcome, entry.rule_id) == (expected.outcome, expected.rule_id)
    shorter = log.up_to(len(values) // 2, refused)
    assert shorter.latest == decoded.rule_set(len(values) // 2)


def _decoded(topic: Topic, limits: RuleLimits, refused: dict[int, list[Reason]]) -> Iterator[LogEntry]:
    for each in topic.read(0, len(topic.values)):
        entry = read_entry(each.offset, each.append_ms, each.value, SCHEMA, limits)
        yield entry.rejected_by_pin(OVER_BUDGET) if each.offset in refused else entry


@pytest.mark.parametrize("steps", [(5,), (2, 5), (1, 3, 4, 5)])
def test_the_digest_is_the_digest_of_earlier_releases(steps: Sequence[int]) -> None:
    log = RuleLog(Topic([record(), None, b"\xff", record(ruleId=2), record(limit=None)]).read, SCHEMA, LIMITS)
    digests = []
    for end in steps:
        digests.append(log.digest(end))
        log.up_to(end, {}, digests[-1])
    assert digests[-1] == log.digest(5) == "83ca418402b887549d8c1d94b8620403"


def test_a_log_that_differs_is_read_again_after_its_repair() -> None:
    good, bad = Topic([record(ruleId=1), record(ruleId=2)]), Topic([record(ruleId=1), record(ruleId=3)])
    digest = RuleLog(good.read, SCHEMA, LIMITS).digest(2)
    topics = iter([bad, good])
    log = RuleLog(lambda start, end: next(topics).read(start, end), SCHEMA, LIMITS)

    with pytest.raises(TopicUnsuitable, match="below offset 2 differs"):
        log.up_to(2, {}, digest)
    assert list(log.up_to(2, {}, digest).latest.rules) == [1, 2]


def test_a_read_that_fails_halfway_leaves_no_trace() -> None:
    topic, fails = Topic([record(ruleId=n) for n in range(1, 4)]), iter([True, False])

    def read(start: int, end: int) -> Iterator[Record]:
        yield from topic.read(start, 2)
        if next(fails):
            raise BrokerUnavailable("gone")
        yield from topic.read(2, end)

    log = RuleLog(read, SCHEMA, LIMITS)
    with pytest.raises(BrokerUnavailable):
        log.up_to(3, {})
    assert list(log.up_to(3, {}).latest.rules) == [1, 2, 3]


def test_a_superseded_revision_stays_undecoded() -> None:
    log = RuleLog(Topic([record(limit=n) for n in range(1_000)]).read, SCHEMA, LIMITS)
    timeline = log.up_to(1_000, {})
    assert timeline.latest.rules[1].version == 999
    kept = [entry.content.value for entry in timeline.entries if isinstance(entry.content, UndecodedRule)]
    assert len(kept) == 1_000


def test_the_reader_of_a_long_log_reports_its_progress() -> None:
    reached: list[tuple[int, int]] = []
    topic = Topic([record()] * 2_500)
    RuleLog(topic.read, SCHEMA, LIMITS, lambda done, total: reached.append((done, total))).up_to(2_500, {})
    assert reached == [(1_000, 2_500), (2_000, 2_500), (2_500, 2_500)]
