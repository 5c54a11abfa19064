"""Read models of labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fraud_control.domain.read_models import EpochMs, ReadModel

__all__ = ["LabelCounts", "LabelUpload"]


class LabelCounts(ReadModel):
    """The labels of one source: marks are counted by alert, the others by transaction. `newest` is the time of the
    newest one, null without any.
    """

    source: Literal["mark", "file", "topic"]
    fraud: int
    not_fraud: int
    newest_ms: EpochMs | None = Field(serialization_alias="newest")


class LabelUpload(ReadModel):
    """The result of an upload. `skipped` counts the lines without a usable label, by reason."""

    fraud: int
    not_fraud: int
    skipped: dict[str, int]
