"""The application that Airflow's API server mounts, created when the API server asks for it.

Airflow loads the plugin in the process of each task of every DAG. Only the API server may pay for the web libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, overload
from urllib.parse import urlsplit

from fraud_ops.paths import PAGES, ROOT
from fraud_rules_airflow.airflow_ui.address import base_url


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
    """The pages of the control plane, which its own server serves."""
    from fraud_rules_airflow.airflow_ui.control_plane_proxy import create_app

    return [{"app": create_app(), "url_prefix": ROOT, "name": "Fraud rules"}]


def pages_address() -> str:
    """The address of the pages for a browser. Airflow may be below a path."""
    return f"{urlsplit(base_url()).path}{PAGES}/"
