"""Reports how an executor's Python daemon prepares: `python -m fraud_rules.stream.worker.preparation PID EVERY_S`.

The daemon loads the kernel, and compiles it for minutes on a host without its code. Then only this host uses the CPU,
and a supervisor on the driver's host would take the start for a hanging one. The daemon may start no thread before it
forks its workers, so a child process reports.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from fraud_rules.stream.channel import CHANNEL_VARIABLE, ChannelAddress, PreparationReport

_EVERY_S = 5.0


@contextmanager
def preparation_reported(every_s: float = _EVERY_S) -> Iterator[None]:
    """Report the CPU time of this process to the driver that the environment names, if any. A preparation that ends
    within `every_s` is not reported."""
    if CHANNEL_VARIABLE not in os.environ:
        yield
        return
    command = [sys.executable, "-m", __name__, str(os.getpid()), str(every_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as reporter:
        try:
            yield
        finally:
            reporter.kill()  # it may wait for the driver, and the workers need no more reports


def main(process: int, every_s: float) -> None:
    """Report the CPU time of a process every `every_s`. If it is killed, its pipe closes, and this process ends."""
    watched, daemon = psutil.Process(process), f"{socket.gethostname()}/{process}"
    channel = ChannelAddress.decode(os.environ[CHANNEL_VARIABLE])
    while not select.select([sys.stdin], [], [], every_s)[0]:
        # Its libraries need a second of CPU time, which a short preparation does not spend.
        from fraud_rules.stream.worker.driver_link import report_preparation

        used = watched.cpu_times()
        report_preparation(channel, PreparationReport(daemon, used.user + used.system))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
