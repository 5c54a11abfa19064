"""Schemas of lists of values and of maps."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from fraud_control.domain.collection_models import CollectionRevision, ListedValue, MapEntry, StoredList, StoredMap
from fraud_control.domain.read_models import Approval, EpochMs
from fraud_control.web.schemas.base import Comment, Items, Paged, Request
from fraud_control.web.schemas.rules import Activation
from fraud_rules.model.value_list import ListOperation, ListType
from fraud_rules.model.value_map import MapValueType

_MOST_CHARS = 16_777_216

Values = Annotated[list[str], Field(description="Values of a list as texts, exactly as given.")]
Entries = Annotated[dict[str, str], Field(description="Keys of a map with their values, as texts.")]
Keys = Annotated[list[str], Field(description="Keys that leave a map, as texts.")]
Content = Annotated[
    str,
    Field(
        max_length=_MOST_CHARS,
        description="A text with one value per line, or `key,value` as in CSV for a map. Lines from # on are comments.",
    ),
]


class ListRow(StoredList):
    """A list. `activation` concerns its newest record in the rule log; the list is live if it says LIVE."""

    activation: Activation | None
    pending_approval: Approval | None


class MapRow(StoredMap):
    """A map. `activation` concerns its newest record in the rule log; the map is live if it says LIVE."""

    activation: Activation | None
    pending_approval: Approval | None


class CollectionVersion(CollectionRevision):
    """A change of a list or map."""

    activation: Activation | None


class ContentRequest(Request):
    """Content in exactly one form: `content`, or `values` of a list, `entries` of a map, `keys` that leave a map."""

    values: Values | None = None
    entries: Entries | None = None
    keys: Keys | None = None
    content: Content | None = None


class CreateListRequest(ContentRequest):
    """A new list with its values. With `expiresAt`, the values leave the list at that time."""

    name: Annotated[str, Field(max_length=63)]
    type: ListType
    expires_at: EpochMs | None = None
    comment: Comment = ""


class CreateMapRequest(ContentRequest):
    """A new map with its entries. With `expiresAt`, the entries leave the map at that time."""

    name: Annotated[str, Field(max_length=63)]
    key_type: ListType
    value_type: MapValueType
    expires_at: EpochMs | None = None
    comment: Comment = ""


class CollectionPreviewRequest(ContentRequest):
    """A change to compare with the list or map. DELETE has no content."""

    operation: ListOperation


class CollectionChangeRequest(CollectionPreviewRequest):
    """A change of a list or map. With `expiresAt`, the content of a SET or ADD leaves it at that time."""

    expires_at: EpochMs | None = None
    comment: Comment = ""


class CollectionImportRequest(Request):
    """A file of lists or of maps. Without `format`, the content determines the format. `revisions` are the revisions
    that the user has read in the dry run: the import rejects a list or map that has changed since.
    """

    content: Annotated[str, Field(max_length=_MOST_CHARS)]
    format: Literal["json", "yaml", "text"] | None = None
    revisions: dict[str, int] | None = None
    comment: Comment = ""


Lists: TypeAlias = Items[ListRow]
Maps: TypeAlias = Items[MapRow]
ListValues: TypeAlias = Paged[ListedValue, str]
MapEntries: TypeAlias = Paged[MapEntry, str]
CollectionVersions: TypeAlias = Paged[CollectionVersion, str]
