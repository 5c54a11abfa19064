"""An answer for the processes that read payments, which does what its question names."""

from __future__ import annotations

import os
import time

from fraud_rules.errors import BrokerUnavailable

__all__ = ["answer"]


def answer(source: str, question: tuple[str, float]) -> bytes:
    """Answer with the process id: after this CPU time (`work`) or time (`sleep`), or not at all (`fail`, `end`)."""
    kind, seconds = question
    match kind:
        case "work":
            until_s = time.process_time() + seconds
            while time.process_time() < until_s:
                pass
        case "sleep":
            time.sleep(seconds)
        case "fail":
            raise BrokerUnavailable(f"no broker\nfor {source}")
        case "end":
            os._exit(1)
    return str(os.getpid()).encode()
