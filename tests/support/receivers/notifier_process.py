"""A process that sends the notifications of a store, until it is killed. Its lease and its pauses are short.

Usage: python notifier_process.py DATABASE_URL
"""

from __future__ import annotations

import sys
import threading

from fraud_control.service.notifications import outbox
from fraud_control.store import leases
from fraud_control.store.database import Database
from fraud_control.sync.notifier import Notifier
from fraud_ops.delivery.connections import connection_in_environment
from fraud_ops.delivery.notifications import NotificationSender
from fraud_ops.notifications import ReceiverKind
from fraud_rules.runtime.clock import now_ms

if __name__ == "__main__":
    leases.LEASE_MS, leases._RENEW_S, outbox._FIRST_PAUSE_MS = 3_000, 0.5, 500  # type: ignore[misc]
    database = Database.open(sys.argv[1])
    Notifier(
        database, {"desk": ReceiverKind.WEBHOOK}, NotificationSender(connection_in_environment, "").send, now_ms
    ).start()
    threading.Event().wait()
