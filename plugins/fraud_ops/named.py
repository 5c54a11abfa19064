"""How an error of the product ends a task: what a repetition cannot cure ends it for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from fraud_ops.airflow_ui.links import publish_runbook
from fraud_rules.errors import BrokerUnavailable, FraudError, Superseded

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["named"]

_PASSING = (BrokerUnavailable, Superseded)


@contextmanager
def named(context: Context | None = None) -> Iterator[None]:
    """Within the block, errors by name become Airflow's: a broker that is away is worth a retry, a wrong connection is
    not. Given the context, the task's button *Runbook* leads to what is to be done."""
    try:
        yield
    except FraudError as error:
        name = type(error).__name__
        if context is not None:
            publish_runbook(context, name)
        kind = AirflowException if isinstance(error, _PASSING) else AirflowFailException
        raise kind(f"{name}: {error}") from error
