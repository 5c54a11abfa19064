"""Maps errors of the product to errors of Airflow. Errors that a retry cannot cure fail the task at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from fraud_rules.errors import BrokerUnavailable, FraudError, Superseded
from fraud_rules_airflow.airflow_ui.links import publish_runbook

if TYPE_CHECKING:
    from airflow.sdk import Context

_TRANSIENT = (BrokerUnavailable, Superseded)


@contextmanager
def airflow_errors(context: Context | None = None) -> Iterator[None]:
    """Map a `FraudError` in the block to an Airflow error with its name. An unreachable broker is worth a retry, a
    wrong connection is not. With a context, the task's link *Runbook* opens the page of the error."""
    try:
        yield
    except FraudError as error:
        name = type(error).__name__
        if context is not None:
            publish_runbook(context, name)
        kind = AirflowException if isinstance(error, _TRANSIENT) else AirflowFailException
        raise kind(f"{name}: {error}") from error
