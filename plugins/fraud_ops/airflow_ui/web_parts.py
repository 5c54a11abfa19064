"""The applications that Airflow's API server mounts, created when the API server asks for them.

Airflow loads the plugin in the process of each task of every DAG. Only the API server may pay for the web libraries and
the control plane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, overload
from urllib.parse import urlsplit

from fraud_ops.airflow_ui.address import base_url
from fraud_ops.airflow_ui.report_links import REPORTS_PATH
from fraud_ops.control_plane.paths import PAGES

__all__ = ["DeferredParts", "applications", "middlewares", "pages_address"]


class DeferredParts(Sequence[dict[str, Any]]):
    """Parts of a plugin that `create` returns at the first use."""

    def __init__(self, create: Callable[[], Sequence[dict[str, Any]]]) -> None:
        self._create = cache(create)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Sequence[dict[str, Any]]:
        return self._create()[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._create())

    def __len__(self) -> int:
        return len(self._create())


def applications() -> Sequence[dict[str, Any]]:
    """The control plane, the runbooks and logs, and the reports."""
    from fraud_ops.airflow_ui.pages import create_app as create_pages
    from fraud_ops.airflow_ui.report_pages import create_app as create_reports
    from fraud_ops.control_plane.web.app import app as control_plane
    from fraud_ops.control_plane.web.pages import protected

    # Airflow uses the first app whose prefix matches. The prefix of the control plane extends that of the runbooks.
    return [
        {"app": control_plane, "url_prefix": PAGES, "name": "Fraud rules"},
        {"app": protected(create_pages, control_plane), "url_prefix": "/fraud", "name": "Fraud"},
        {"app": protected(create_reports, control_plane), "url_prefix": REPORTS_PATH, "name": "Fraud reports"},
    ]


def pages_address() -> str:
    """The address of the pages for a browser. Airflow may be below a path."""
    return f"{urlsplit(base_url()).path}{PAGES}/"


def middlewares() -> Sequence[dict[str, Any]]:
    """The gate in front of the control plane."""
    from fraud_ops.control_plane.web.app import app as control_plane
    from fraud_ops.control_plane.web.front_gate import FrontGate

    return [
        {
            "middleware": FrontGate,
            "kwargs": {"control_plane": control_plane, "prefix": PAGES},
            "name": "Rate limits of the control plane",
        }
    ]
