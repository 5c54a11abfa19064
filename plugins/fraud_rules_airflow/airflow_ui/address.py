"""The address of Airflow for a browser."""

from __future__ import annotations

from airflow.sdk import conf


def base_url() -> str:
    """The address of Airflow, without a slash at its end; empty if the configuration has none."""
    return str(conf.get("api", "base_url", fallback="")).rstrip("/")
