"""Schemas of lists of values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fraud_control.domain.collection_models import CollectionRevision, ListedValue, StoredList
from fraud_control.domain.read_models import Approval, EpochMs
from fraud_control.web.schemas.base import Comment, Request, ResponseModel
from fraud_control.web.schemas.rules import Activation
from fraud_rules.model.value_list import ListOperation, ListType

__all__ = [
    "CreateListRequest",
    "ListChangeRequest",
    "ListImportRequest",
    "ListPreviewRequest",
    "ListRow",
    "ListValues",
    "ListValuesRequest",
    "ListVersion",
    "ListVersions",
    "Lists",
]

_MOST_CHARS = 16_777_216

Values = Annotated[list[str], Field(description="Values as texts, exactly as given.")]
Content = Annotated[
    str, Field(max_length=_MOST_CHARS, description="A text with one value per line. Lines from # on are comments.")
]


class ListRow(StoredList):
    """A list. `activation` concerns its newest record in the rule log; the list is live if it says LIVE."""

    activation: Activation | None
    pending_approval: Approval | None


class Lists(ResponseModel):
    """All lists, by name."""

    items: list[ListRow]


class ListValues(ResponseModel):
    """A page of values in order. `next` is the cursor of the next page."""

    items: list[ListedValue]
    next: str | None


class ListVersion(CollectionRevision):
    """A change of a list."""

    activation: Activation | None


class ListVersions(ResponseModel):
    """A page of changes, newest first."""

    items: list[ListVersion]
    next: str | None


class ListValuesRequest(Request):
    """Values, in exactly one form."""

    values: Values | None = None
    content: Content | None = None


class CreateListRequest(ListValuesRequest):
    """A new list with its values. With `expiresAt`, the values leave the list at that time."""

    name: Annotated[str, Field(max_length=63)]
    type: ListType
    expires_at: EpochMs | None = None
    comment: Comment = ""


class ListPreviewRequest(ListValuesRequest):
    """A change to compare with the list. DELETE has no values."""

    operation: ListOperation


class ListChangeRequest(ListPreviewRequest):
    """A change of a list. With `expiresAt`, the values of a SET or ADD leave the list at that time."""

    expires_at: EpochMs | None = None
    comment: Comment = ""


class ListImportRequest(Request):
    """A file of lists. Without `format`, the content determines the format. `revisions` are the revisions of the lists
    that the user has read in the dry run: the import rejects a list that has changed since.
    """

    content: Annotated[str, Field(max_length=_MOST_CHARS)]
    format: Literal["json", "yaml", "text"] | None = None
    revisions: dict[str, int] | None = None
    comment: Comment = ""
