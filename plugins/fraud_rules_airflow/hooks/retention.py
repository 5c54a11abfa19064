"""The hook of the connection for the retention: the control plane, with the token of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from airflow.sdk import BaseHook

from fraud_rules.api_client import TOKEN_VARIABLE, Client
from fraud_rules.errors import ConfigError
from fraud_rules_airflow.hooks.connections import connection

RETENTION: Final = "fraud_retention"
"""The control plane for the retention: a connection of type HTTP. The host is the address of its server or of Airflow's
API server, and the password is a token for programs of an admin."""


class RetentionHook(BaseHook):
    """Asks the control plane to remove data."""

    def __init__(self, control_plane_conn_id: str = RETENTION) -> None:
        super().__init__()
        self.control_plane_conn_id = control_plane_conn_id

    def remove_expired(self) -> dict[str, Any]:
        """Remove the data beyond its retention, and return the numbers of removed rows.

        Raises ConfigError, Unavailable, RequestRefused and ControlPlaneError.
        """
        found = connection(self.control_plane_conn_id)
        if not found.host or not found.password:
            raise ConfigError(
                f"the Airflow connection {self.control_plane_conn_id} needs an address as its host, and a token"
            )
        client = Client(found.host, Path(), {TOKEN_VARIABLE: found.password})
        answer, _ = client.change("POST", "/retention")
        removed: dict[str, Any] = answer
        return removed
