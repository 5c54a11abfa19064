"""Schemas of labels of transactions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fraud_control.domain.label_models import LabelCounts
from fraud_control.web.schemas.base import Request, ResponseModel


class LabelSources(ResponseModel):
    """The labels that what-ifs use, by source. `unreadable` counts the records of the topic that this server has
    skipped."""

    sources: list[LabelCounts]
    unreadable: int


class LabelUploadRequest(Request):
    """A file of labels: CSV with a header, or JSON Lines. `name` is its name, for the audit log."""

    name: str
    format: Literal["csv", "jsonl"]
    content: Annotated[str, Field(max_length=16_777_216)]
