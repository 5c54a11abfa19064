"""The hook of the connection to the control plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import httpx
from airflow.sdk import BaseHook

from fraud_ops.paths import HEALTH
from fraud_ops.tickets import TicketKeys
from fraud_rules.errors import ConfigError
from fraud_rules_airflow.hooks.connections import connection

CONTROL_PLANE: Final = "fraud_control"
"""The control plane: the host is its URL, the password the key of tickets. Its extra may have `url`, for browsers."""

_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ControlPlaneServer:
    """The server of the control plane, and the keys of its tickets."""

    url: str
    keys: TicketKeys
    public_url: str = ""
    """The address of its pages for a browser, if users open them there."""


class ControlPlaneHook(BaseHook):
    """Reads the connection to the control plane, and tests it."""

    conn_name_attr = "control_plane_conn_id"
    default_conn_name = CONTROL_PLANE
    conn_type = "fraud_control_plane"
    hook_name = "Fraud rules control plane"

    def __init__(self, control_plane_conn_id: str = CONTROL_PLANE) -> None:
        super().__init__()
        self.control_plane_conn_id = control_plane_conn_id

    def get_conn(self) -> ControlPlaneServer:
        """The server that the connection names. Raises ConfigError."""
        found = connection(self.control_plane_conn_id)
        if not found.host or not found.password:
            raise ConfigError(
                f"the Airflow connection {self.control_plane_conn_id} needs a URL as its host, and a key as its "
                "password"
            )
        public = found.extra_dejson.get("url") or ""
        return ControlPlaneServer(found.host, TicketKeys(found.password), str(public).rstrip("/"))

    def test_connection(self) -> tuple[bool, str]:
        """Whether the server answers its health check, and a text for the page of the connection."""
        try:
            answer = httpx.get(self.get_conn().url.rstrip("/") + HEALTH, timeout=_TIMEOUT_S, trust_env=False)
        except (ConfigError, httpx.HTTPError, httpx.InvalidURL) as error:
            return False, f"{type(error).__name__}: {error}"
        return answer.is_success, f"the health check answers {answer.status_code}"
