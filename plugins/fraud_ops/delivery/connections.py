"""The addresses and secrets of receivers, which are Airflow connections by their form and names.

A process without Airflow reads them from its environment: AIRFLOW_CONN_FRAUD_WEBHOOK has the connection
`fraud_webhook` as JSON, as Airflow reads it, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fraud_rules.errors import ConfigError

_PREFIX: Final = "AIRFLOW_CONN_"


@dataclass(frozen=True, slots=True)
class Connection:
    """An address with its secrets, which no `repr` shows."""

    conn_id: str
    host: str = ""
    port: int | None = None
    login: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


Find = Callable[[str], Connection | None]
"""Finds a connection by its id; None if there is none. Raises ConfigError for one that is unreadable."""


def connection_in_environment(conn_id: str, environ: Mapping[str, str] = os.environ) -> Connection | None:
    """The connection in the environment. Raises ConfigError, which does not contain the secrets."""
    text = environ.get(_PREFIX + conn_id.upper())
    if not text:
        return None
    try:
        found = json.loads(text)
        extra = found.get("extra") or {}
        return Connection(
            conn_id,
            str(found.get("host") or ""),
            None if found.get("port") is None else int(found["port"]),
            str(found.get("login") or ""),
            str(found.get("password") or ""),
            dict(json.loads(extra) if isinstance(extra, str) else extra),
        )
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f"{_PREFIX}{conn_id.upper()} is not the JSON of a connection") from None
