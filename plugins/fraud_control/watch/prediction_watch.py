"""Keeps the predictions of requests for approval, and raises an alarm about approved rules that depart from theirs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from fraud_control.background_thread import LeadingThread
from fraud_control.service.notifications.announcements import are_notified, notify_departures
from fraud_control.service.rules.outcomes import predicted_rules
from fraud_control.service.rules.predictions import prediction_of, save_prediction, unpredicted
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.leases import Leadership
from fraud_control.watch.alarm_reports import AlarmReports, report_standing
from fraud_rules.errors import FraudError

ALARM: Final = "RULE_OFF_PREDICTION"

_INTERVAL_S: Final = 60.0

_log = logging.getLogger(__name__)

Saved = Callable[[Mapping[str, Any]], tuple[str, dict[str, Any]] | None]


class PredictionWatch(LeadingThread):
    """`saved` finds the newest saved what-if of a rule, as `WhatIfs.saved` does. Alarms name the `detector`."""

    def __init__(
        self,
        store: StoreAccess,
        saved: Saved,
        detector: str,
        alarms: AlarmReports,
        lead: Callable[[], AbstractContextManager[Leadership]],
    ) -> None:
        super().__init__("fraud-control-predictions", lead, _INTERVAL_S)
        self._store = store
        self._saved = saved
        self._detector = detector
        self._alarms = alarms

    def step(self) -> None:
        """Save the predictions of new requests, and report the rules that depart from theirs: by an alarm, and to the
        subscriptions of their authors and approvers. Raises FraudError.
        """
        self._predict()
        with self._store.reading() as work:
            departures = [each for each in predicted_rules(work.session, work.now_ms) if each.off]
            notified = are_notified(work.session, work.now_ms)
        if not notified:
            with self._store.unit_of_work() as work:
                notify_departures(work.session, departures, work.now_ms)
        standing = [(f"rule {each.rule_id}", str(each)) for each in departures]
        report_standing(self._alarms, ALARM, self._detector, standing, "is no longer outside of its prediction")

    def _predict(self) -> None:
        with self._store.reading() as work:
            requests = unpredicted(work.session, work.now_ms)
        for approval_id, document in requests:
            try:
                found = self._saved(document)
            except FraudError as error:
                _log.warning("the archive of the what-ifs cannot be read: %s", error)
                return
            prediction = None if found is None else prediction_of(*found)
            if prediction is not None:
                with self._store.unit_of_work() as work:
                    save_prediction(work.session, approval_id, prediction)
