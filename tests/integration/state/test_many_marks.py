"""A batch with very many alerts of a rule that names rules: its marks survive the end of the detector.

The marks need more than one record of the topic of the markers. The last batch before the end has changed them, so only
the marker's parts have them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.checkpoint.mark_parts import read_marks
from fraud_rules.stream.checkpoint.marker import Marker, read_marker
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.processes.constants import with_constants
from tests.support.processes.running_detector import START_S, Installation, RunningDetector
from tests.support.records.payments import sample_payment
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]

KEYS = 4_500
"""Enough payments for a large batch."""
PART_BYTES = 50_000
"""A tenth of the real size, so that fewer keys fill as many parts."""
SUPPRESSED = [payee % 3 for payee in range(KEYS)]
COOLDOWN_MS = 60_000
RULES = [
    {
        "ruleId": 1, "ruleState": "SIGNAL", "groupingKeyNames": ["beneficiaryId"], "aggregatorFunctionType": "COUNT",
        "aggregateFieldName": "paymentAmount", "limitOperatorType": ">=", "limit": 1, "windowMinutes": 20,
    },
    {
        "ruleId": 2, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "conditions": [{"ruleId": 1}],
        "cooldownSeconds": COOLDOWN_MS // 1_000,
    },
]  # fmt: skip
"""Each payment of a payee would alert, without the cool-down."""


class Site:
    """A detector that waits after a batch: the next one does not follow before there are records."""

    def __init__(self, home: Path, project: Project, topics: OwnTopics) -> None:
        made = Installation.make(home, project, topics, key_groups=8, tick_ms=20_000)
        self.installation = with_constants(
            made, batch_loop___WARM_BATCHES=0, checkpoint__mark_parts__PART_BYTES=PART_BYTES
        )
        self.topics, self._start_ms, self._sent = topics, now_ms() - 300_000, 0
        produce(topics.bootstrap, topics.names.rules, [json.dumps(rule).encode() for rule in RULES])

    def pay(self, payees: Iterable[int], after_ms: int) -> None:
        """Send a payment of each payee at this time after the first payments."""
        payments = [
            sample_payment(number, self._start_ms + after_ms, payeeId=payee, beneficiaryId=KEYS + payee % 1_000)
            for number, payee in enumerate(payees, self._sent)
        ]
        produce(self.topics.bootstrap, self.topics.names.transactions, [json.dumps(each).encode() for each in payments])
        self._sent += len(payments)

    def running(self, work: Callable[[], None]) -> None:
        """Run a detector until it has evaluated all payments and then those of `work`."""
        detector = RunningDetector(self.installation)
        try:
            detector.wait_ready()
            self._await_evaluated()
            work()
            self._await_evaluated()
            assert detector.stop() == 0, detector.said()[-2000:]
        finally:
            detector.kill()

    def marker(self) -> Marker:
        found = read_marker(self.topics.kafka, self.installation.settings)
        assert found is not None
        return found

    def alerts(self) -> list[dict[str, Any]]:
        return [json.loads(each.value()) for each in read_all(self.topics.bootstrap, self.topics.names.alerts)]

    def _await_evaluated(self) -> None:
        read = {0: self._sent}
        until(lambda: self.installation.has_read(read, len(RULES)), "all payments are evaluated", START_S)


def test_the_cool_downs_of_very_many_keys_survive_an_end(project: Project, topics: OwnTopics, tmp_path: Path) -> None:
    site = Site(tmp_path / "site", project, topics)
    site.pay(range(KEYS), 0)
    site.running(lambda: None)
    marker = site.marker()
    assert (marker.batch_id, marker.mark_parts > 2) == (0, True), "no later batch has set the marks"
    marks = read_marks(topics.kafka, site.installation.settings, marker)
    assert sorted(each.key for each in marks) == [(payee,) for payee in range(KEYS)]

    for number in (1, 2):
        site.pay((payee for payee, suppressed in enumerate(SUPPRESSED) if suppressed >= number), number)

    def end_the_cool_downs() -> None:
        site.pay([0], COOLDOWN_MS)  # a small batch sets the marks of the large one before
        site.pay(range(1, KEYS), COOLDOWN_MS)

    site.running(end_the_cool_downs)
    found = [(each["key"]["payeeId"], each["suppressed"]) for each in site.alerts()]
    assert len(found) == 2 * KEYS
    assert sorted(found[:KEYS]) == [(payee, 0) for payee in range(KEYS)]
    assert sorted(found[KEYS:]) == list(enumerate(SUPPRESSED))
