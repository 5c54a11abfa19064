"""How a record holds the value of a field: its place, its unit, and its form.

A schema file declares these with the keys `path`, `from`, `unit`, `zone`, `scaled` and `written_as` of a field. Only
the codec uses them. Everything after it has the same values, no matter how the records hold them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from fraud_rules.runtime.zones import is_zone

SOURCE_KEYS: Final = frozenset({"path", "from", "zone", "scaled", "written_as"})
"""The keys of a field that only this module reads. It also reads `unit` of a timestamp."""

MAX_PATH_LENGTH: Final = 16

Path: TypeAlias = tuple[str | int, ...]
"""Names of members, and positions of elements of arrays, from the record to the value."""

_SEGMENT = re.compile(r'(?P<bare>[^."\[\]\s]+)|"(?P<quoted>(?:[^"\\]|\\["\\])+)"')
_ELEMENT = re.compile(r"\[(?P<at>0|[1-9][0-9]{0,5})\]")
_BARE = re.compile(r'[^."\[\]\s]+')


class FieldType(StrEnum):
    """The type of a field. Every type is stored as an int64 column (see `model.transaction.Column`)."""

    LONG = "long"
    STRING = "string"
    TIMESTAMP = "timestamp"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"


class TimeUnit(StrEnum):
    """The unit of a timestamp's number, or ISO-8601 for a text."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"
    ISO8601 = "iso8601"


class WrittenAs(StrEnum):
    """A form that differs from the usual one of the field's type.

    TEXT: a number or boolean in quotes. NUMBER: a text without quotes, such as an account number. BASE64: a decimal as
    Kafka Connect and Debezium encode it, the unscaled number in big-endian bytes.
    """

    TEXT = "text"
    NUMBER = "number"
    BASE64 = "base64"


class Origin(StrEnum):
    """The part of a Kafka record that holds the field.

    A key, a header and the topic's name are texts in UTF-8, which convert like a cell of a CSV line: an absent or empty
    one is null. The last header of a name counts, as for `Headers.lastHeader` of Kafka's client.
    """

    VALUE = "value"
    KEY = "key"
    HEADER = "header"
    TOPIC = "topic"


_FORMS: Final = {
    WrittenAs.TEXT: (FieldType.LONG, FieldType.TIMESTAMP, FieldType.BOOLEAN),
    WrittenAs.NUMBER: (FieldType.STRING,),
    WrittenAs.BASE64: (FieldType.DECIMAL,),
}


@dataclass(frozen=True, slots=True)
class FieldSource:
    """The place and the form of a field's value in a record.

    `path` is empty if a member of the record has the field's name or an alias of it. `header` is the name of the header
    that holds the value, for `Origin.HEADER`. `unit` is None for a timestamp that is epoch ms or ISO-8601. `zone` is
    the zone of a time without an offset, empty for UTC. `scaled`: a decimal is a whole number of its smallest unit.
    """

    path: Path = ()
    origin: Origin = Origin.VALUE
    header: str = ""
    unit: TimeUnit | None = None
    zone: str = ""
    scaled: bool = False
    written_as: WrittenAs | None = None

    @property
    def units(self) -> FieldSource:
        """The source without its place and form."""
        return FieldSource(unit=self.unit, zone=self.zone, scaled=self.scaled)

    def document(self) -> dict[str, object]:
        """The keys of a schema file that declare this source, without those that have their default."""
        origin = f"header.{self.header}" if self.origin is Origin.HEADER else self.origin.value
        keys: dict[str, object] = {
            "path": path_text(self.path),
            "from": "" if self.origin is Origin.VALUE else origin,
            "unit": self.unit.value if self.unit else "",
            "zone": self.zone,
            "scaled": self.scaled,
            "written_as": self.written_as.value if self.written_as else "",
        }
        return {name: value for name, value in keys.items() if value}


def parse_path(text: str) -> Path | None:
    """The path in a text such as `payment."card.type".lines[0]`; None for another text."""
    path: list[str | int] = []
    at = 0
    while True:
        segment = _SEGMENT.match(text, at)
        if segment is None:
            return None
        path.append(segment["bare"] or re.sub(r"\\(.)", r"\1", segment["quoted"]))
        at = segment.end()
        while element := _ELEMENT.match(text, at):
            path.append(int(element["at"]))
            at = element.end()
        if at == len(text):
            return tuple(path) if len(path) <= MAX_PATH_LENGTH else None
        if text[at] != ".":
            return None
        at += 1


def path_text(path: Path) -> str:
    """The text of a path, which `parse_path` reads."""
    parts = [f"[{each}]" if isinstance(each, int) else f".{_quoted(each)}" for each in path]
    return "".join(parts).removeprefix(".")


def _quoted(name: str) -> str:
    if _BARE.fullmatch(name):
        return name
    return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'


def parse_source(item: Mapping[str, object], kind: object, where: str, faults: list[str]) -> FieldSource:
    """Build the source from a field's decoded YAML. Append the faults, which call the field `where`."""
    before = len(faults)
    path = _parse_path(item.get("path"), where, faults)
    origin, header = _parse_origin(item, where, faults)
    unit, zone = _parse_time(item, kind, where, faults)
    scaled, form = item.get("scaled", False), item.get("written_as")
    if not isinstance(scaled, bool) or (scaled and kind != FieldType.DECIMAL):
        faults.append(f"{where}: `scaled` must be true or false, and is for type decimal only")
    if form is not None and (form not in tuple(WrittenAs) or kind not in _FORMS[WrittenAs(str(form))]):
        forms = ", ".join(f"{form} (for {' or '.join(kinds)})" for form, kinds in _FORMS.items())
        faults.append(f"{where}: `written_as` must be one of {forms}")
    if form is not None and origin is not Origin.VALUE:
        faults.append(f"{where}: `written_as` is for members of the value; a key, header or topic's name is a text")
    if scaled and form:
        faults.append(f"{where}: a number in {form} is always the unscaled one, so `scaled` is not possible")
    if len(faults) > before:
        return FieldSource()
    return FieldSource(path, origin, header, unit, zone, bool(scaled), WrittenAs(str(form)) if form else None)


def _parse_path(text: object, where: str, faults: list[str]) -> Path:
    if text is None:
        return ()
    path = parse_path(text) if isinstance(text, str) else None
    if path is None:
        faults.append(
            f"{where}: `path` must be names with dots between them, such as payment.amount.value, with names that "
            f"contain dots in double quotes and elements of arrays as lines[0]; at most {MAX_PATH_LENGTH} parts"
        )
    return path or ()


def _parse_origin(item: Mapping[str, object], where: str, faults: list[str]) -> tuple[Origin, str]:
    text = item.get("from", "value")
    kind, _, header = text.partition(".") if isinstance(text, str) else ("", "", "")
    is_header = kind == Origin.HEADER and bool(header)
    if not is_header and text not in (Origin.VALUE, Origin.KEY, Origin.TOPIC):
        faults.append(f"{where}: `from` must be key, topic, or header. and the header's name")
        return Origin.VALUE, ""
    origin = Origin(kind)
    if origin is not Origin.VALUE and (item.get("path") or item.get("aliases")):
        faults.append(f"{where}: `path` and `aliases` name members of the value, so they exclude `from: {text}`")
    return origin, header


def _parse_time(item: Mapping[str, object], kind: object, where: str, faults: list[str]) -> tuple[TimeUnit | None, str]:
    zone = item.get("zone", "")
    if kind != FieldType.TIMESTAMP:
        if zone:
            faults.append(f"{where}: `zone` is for type timestamp only")
        return None, ""
    unit = item.get("unit") or None
    if unit is not None and unit not in tuple(TimeUnit):
        faults.append(f"{where}: `unit` of a timestamp must be one of {', '.join(TimeUnit)}")
        return None, ""
    if zone and (unit not in (None, TimeUnit.ISO8601) or not isinstance(zone, str) or not is_zone(zone)):
        faults.append(f"{where}: `zone` must be the name of a time zone, such as Europe/Berlin, for unit iso8601")
        return None, ""
    return TimeUnit(str(unit)) if unit else None, str(zone)


def overlapping(paths: Sequence[Path]) -> tuple[Path, Path] | None:
    """Two paths of which one leads to or through the other; None without such paths."""
    ordered = sorted(paths, key=lambda path: [(isinstance(part, int), part) for part in path])
    return next(((a, b) for a, b in itertools.pairwise(ordered) if b[: len(a)] == a), None)
