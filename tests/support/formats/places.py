"""Places of fields, as a schema would declare them."""

from __future__ import annotations

from collections.abc import Sequence

from fraud_rules.codec.formats.places import FieldPlaces
from fraud_rules.model.declared.field_source import Path


def optional(*paths: Path | str) -> tuple[FieldPlaces, ...]:
    """Nullable fields at these paths. A text is a path of one member."""
    return tuple(_field(path, required=False) for path in paths)


def required(*paths: Path | str) -> tuple[FieldPlaces, ...]:
    """Fields at these paths that are not nullable."""
    return tuple(_field(path, required=True) for path in paths)


def _field(path: Path | str | Sequence[str], *, required: bool) -> FieldPlaces:
    parts = (path,) if isinstance(path, str) else tuple(path)
    return FieldPlaces("_".join(map(str, parts)), (parts,), required)
