"""Checks Spark's master before a detector starts on it."""

from __future__ import annotations

import re
import socket

from fraud_rules.errors import MasterUnavailable

_LOCAL = re.compile(r"local(\[(\*|[1-9][0-9]*)(\s*,\s*[1-9][0-9]*)?\])?")
_STANDALONE = re.compile(r"spark://([^:,/]+:[0-9]+(?:,[^:,/]+:[0-9]+)*)")
_MANAGED = re.compile(r"yarn|k8s://.+")
_TIMEOUT_S = 3.0


def check_master(master: str) -> None:
    """Raise MasterUnavailable for an invalid master, or if no process listens at its address.

    Only Spark reads the configuration of YARN and Kubernetes, so for these only the name is checked.
    """
    if _LOCAL.fullmatch(master) or _MANAGED.fullmatch(master):
        return
    standalone = _STANDALONE.fullmatch(master)
    if standalone is None:
        raise MasterUnavailable(
            f"{master!r} is not a Spark master: use local[2,4], spark://host:7077, yarn or k8s://https://host:443"
        )
    faults = [fault for address in standalone[1].split(",") if (fault := _fault(address)) is not None]
    if len(faults) == len(standalone[1].split(",")):
        raise MasterUnavailable(f"no Spark master answers at {master}: {faults[0]}")


def _fault(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        return str(error)
    return None
