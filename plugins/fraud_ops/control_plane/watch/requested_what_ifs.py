"""Runs a what-if for each new request for approval, so that the approver sees what the change would do."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from fraud_ops.control_plane.domain.errors import RequestRefused
from fraud_ops.control_plane.domain.read_models import RuleChanged
from fraud_ops.control_plane.domain.roles import system_author
from fraud_ops.control_plane.service.service import ControlService
from fraud_ops.control_plane.service.whatif import WhatIfQuestion, WhatIfRunner
from fraud_ops.control_plane.watch.change_follower import ChangeFollower
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.errors import FraudError
from fraud_rules.runtime.retry import RepeatedWork

__all__ = ["RequestedWhatIfs"]

_DAYS: Final = 7
_MOST: Final = 1_000
"""The most rules that wait. Beyond it, the oldest ones get no what-if; users can start it on the page."""
_FULL_PAUSE_S: Final = 5.0
_IDLE_S: Final = 60.0
_USER: Final = system_author("approvals")

_log = logging.getLogger(__name__)


class RequestedWhatIfs(ChangeFollower):
    """Evaluates the rules of new requests one after the other, beside the request that changed the rule."""

    def __init__(self, service: ControlService, runner: WhatIfRunner) -> None:
        super().__init__("fraud-control-requested-what-ifs", service)
        self._runner = runner
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self._running: int | None = None

    def awaits(self, rule_id: object) -> bool:
        """Whether the what-if of a request for this rule waits or runs in this process."""
        with self._lock:
            return rule_id in self._waiting or rule_id == self._running

    def _note(self, changed: RuleChanged) -> None:
        """Remember the rule: the change may have opened a request."""
        if changed.rule_id is None:
            return
        self._waiting[changed.rule_id] = None
        if len(self._waiting) > _MOST:
            self._waiting.popitem(last=False)

    def _run(self, attempt: RepeatedWork) -> None:
        while not self._stop.is_set():
            rule_id = self._next()
            if rule_id is None:
                attempt.record_success()
                self._await_change(_IDLE_S)
                continue
            try:
                self._evaluate(rule_id)
            except FraudError as error:
                _log.warning("no what-if for the request about rule %d: %s", rule_id, error)

    def _next(self) -> int | None:
        """The rule to evaluate now. A change during its evaluation makes it wait again."""
        with self._lock:
            self._running = self._waiting.popitem(last=False)[0] if self._waiting else None
            return self._running

    def _evaluate(self, rule_id: int) -> None:
        document = self._service.requested_rule(rule_id)
        if document is None or not self._runner.days() or self._runner.saved(document) is not None:
            return
        question = WhatIfQuestion(encode_document({**document, "ruleState": "ACTIVE"}), _DAYS, windows=False)
        while not self._stop.is_set():
            try:
                run = self._runner.start(question, _USER, 1)
            except RequestRefused:  # users' what-ifs fill the queue
                self._stop.wait(_FULL_PAUSE_S)
                continue
            while not self._stop.is_set() and not run.ended.wait(1.0):
                pass
            return
