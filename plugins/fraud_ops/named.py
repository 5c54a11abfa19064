"""How an error of the product ends a task: what a repetition cannot cure ends it for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from fraud_rules.errors import BrokerUnavailable, FraudError, Superseded

__all__ = ["named"]

_PASSING = (BrokerUnavailable, Superseded)


@contextmanager
def named() -> Iterator[None]:
    """Within the block, errors by name become Airflow's: a broker that is away is worth a retry, a wrong connection is
    not."""
    try:
        yield
    except _PASSING as error:
        raise AirflowException(f"{type(error).__name__}: {error}") from error
    except FraudError as error:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error
