"""Limits the time of the detector's shutdown.

Stopping Spark waits for locks that its tasks hold, and can hang for minutes. A kill of the detector never loses data,
so after the limit the process reports the reason, kills its JVM and workers, and ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psutil

from fraud_rules.errors import FraudError, ShutdownStalled
from fraud_rules.runtime.process import kill_processes

END_S: Final = 30.0


@contextmanager
def shutdown_deadline(
    ended: threading.Event,
    report: Callable[[str], None],
    limit_s: float = END_S,
    leave: Callable[[int], None] = os._exit,
) -> Iterator[None]:
    """Limit the time from the end of the block until `ended` is set.

    After the limit, the last line and the exit code are those of the error that left the block, or of ShutdownStalled
    if there was none.
    """
    try:
        yield
    finally:
        error = sys.exc_info()[1]
        thread = threading.Thread(target=_enforce, args=(error, ended, limit_s, report, leave), daemon=True)
        thread.start()


def _enforce(
    error: BaseException | None,
    ended: threading.Event,
    limit_s: float,
    report: Callable[[str], None],
    leave: Callable[[int], None],
) -> None:
    if ended.wait(limit_s):
        return
    late = ShutdownStalled(
        f"Spark did not stop within {limit_s:g} s and was killed; all outputs are written, nothing is lost"
    )
    cause = error if isinstance(error, FraudError) else late
    with contextlib.suppress(psutil.Error):
        kill_processes(psutil.Process().children(recursive=True), 0.0)
    report(str(cause) if cause is late else f"{cause} (Spark did not stop within {limit_s:g} s and was killed)")
    leave(cause.exit_code)
