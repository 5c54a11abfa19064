"""The health check of a component of Airflow: exit code 0 if the API server reports that it is healthy.

`airflow jobs check` answers the same question, but loads all of Airflow: some seconds of a core for each check.
"""

from __future__ import annotations

import json
import sys
import urllib.request

URL = "http://airflow-api-server:8080/api/v2/monitor/health"


def is_healthy(document: dict[str, dict[str, str | None]], component: str) -> bool:
    """Whether the answer of /monitor/health reports a recent heartbeat of a component."""
    return document.get(component, {}).get("status") == "healthy"


if __name__ == "__main__":
    with urllib.request.urlopen(URL, timeout=10) as answer:
        sys.exit(0 if is_healthy(json.load(answer), sys.argv[1]) else 1)
