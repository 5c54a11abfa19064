from __future__ import annotations

import time

from fraud_rules.runtime.clock import now_ms


def test_the_clock_gives_epoch_milliseconds() -> None:
    before_s = time.time()
    read_ms = now_ms()
    assert isinstance(read_ms, int)
    assert before_s * 1_000 - 1 <= read_ms <= time.time() * 1_000
