"""The commands that use the API, against a real API server of Airflow's.

The test is long: `web/test_client_commands` does the same work at a control plane in its process, `unit/fraud_ops` has
the proxy of Airflow's plugin, and the browser tests log in at a real API server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fraud_rules.kafka.broker import Broker
from tests.support.control_plane.web.api_server import ApiServer
from tests.support.control_plane.web.terminal import Terminal
from tests.support.control_plane.web.terminal_work import work

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_two_users_work_from_a_terminal(served: ApiServer, configured: Broker, tmp_path: Path) -> None:
    work(Terminal(served.airflow.site.url, tmp_path), configured.kafka, "alerts")
