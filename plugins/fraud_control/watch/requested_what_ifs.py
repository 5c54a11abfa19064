"""Queues a what-if for each new request for approval, so that the approver sees what the change would do."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from fraud_control.domain.read_models import RuleChanged
from fraud_control.service.reading.approval_figures import rule_to_evaluate
from fraud_control.service.store_access import StoreAccess
from fraud_control.service.whatif import WhatIfQuestion, WhatIfs
from fraud_control.watch.change_follower import ChangeFollower
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.errors import FraudError
from fraud_rules.runtime.retry import RepeatedWork

_DAYS: Final = 14
"""Two weeks: each weekday counts twice in the prediction."""

_MOST: Final = 1_000
"""The most rules that wait. Beyond it, the oldest ones get no what-if; users can start it on the page."""
_IDLE_S: Final = 60.0

_log = logging.getLogger(__name__)


class RequestedWhatIfs(ChangeFollower):
    """Adds the rules of new requests to the queue, beside the request that changed the rule."""

    def __init__(self, store: StoreAccess, what_ifs: WhatIfs) -> None:
        super().__init__("fraud-control-requested-what-ifs", store)
        self._what_ifs = what_ifs
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self._working: int | None = None

    def awaits(self, rule_id: object) -> bool:
        """Whether the what-if of a request for this rule waits or runs, in any server."""
        with self._lock:
            noted = rule_id in self._waiting or rule_id == self._working
        return noted or self._what_ifs.is_requested(rule_id)

    def _note(self, changed: RuleChanged) -> None:
        """Remember the rule: the change may have opened a request."""
        if changed.rule_id is None:
            return
        self._waiting[changed.rule_id] = None
        if len(self._waiting) > _MOST:
            self._waiting.popitem(last=False)

    def _work(self, attempt: RepeatedWork) -> None:
        while not self._stop.is_set():
            rule_id = self._next()
            if rule_id is None:
                attempt.record_success()
                self._await_change(_IDLE_S)
                continue
            try:
                self._queue(rule_id)
            except FraudError as error:
                _log.warning("no what-if for the request about rule %d: %s", rule_id, error)

    def _next(self) -> int | None:
        """The rule to queue now."""
        with self._lock:
            self._working = self._waiting.popitem(last=False)[0] if self._waiting else None
            return self._working

    def _queue(self, rule_id: int) -> None:
        with self._store.reading() as work:
            document = rule_to_evaluate(work.session, rule_id)
        if document is None or not self._what_ifs.days() or self._what_ifs.saved(document) is not None:
            self._what_ifs.withdraw(rule_id)
            return
        record = encode_document({**document, "ruleState": "ACTIVE"})
        self._what_ifs.request(rule_id, WhatIfQuestion(record, _DAYS, windows=False))
