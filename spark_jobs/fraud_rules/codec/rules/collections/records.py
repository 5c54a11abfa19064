"""What records about lists and records about maps have in common: name, operation and source, and their length."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from fraud_rules.codec.rules.json import DecodedObject, decode_object
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind, ListOperation
from fraud_rules.runtime.safe_text import describe_value, quote

T = TypeVar("T")

COLLECTION_NAME: Final = r"[a-z][a-z0-9_-]{0,62}"
"""The form of the name of a list or map."""
SOURCE_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
"""The form of the member `source` of rules, lists and maps."""

_RECORD_MARK: Final = re.compile(rb'"(list|map)(?:Name|Operation)"\s*:')
_NAME: Final = re.compile(COLLECTION_NAME, re.ASCII)
_MAX_CONTENT_REASONS: Final = 20
_RECORD_TARGET_BYTES: Final = 65_536  # of room that a record leaves below the limit for its other members
_encode = msgspec.json.Encoder().encode


def collection_key(kind: CollectionKind, name: str) -> bytes:
    """The key of a record about a list or map. No rule's key begins like this."""
    return f"{kind}:{name}".encode()


def kind_of_record(value: bytes) -> CollectionKind | None:
    """Whether the bytes name a member of list records or of map records; None for neither. The JSON may be invalid."""
    if b'"list' not in value and b'"map' not in value:
        return None
    found = _RECORD_MARK.search(value)
    return None if found is None else CollectionKind(found[1].decode())


def decode_record(value: bytes, limits: RuleLimits, content_members: Collection[str]) -> DecodedObject:
    """Decode a record. Raises `RuleRejected` if it yields no object with members to check."""
    try:
        text = value.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise RuleRejected([Reason("record", f"is not UTF-8 at byte {error.start + 1}")]) from error
    return decode_object(text, limits, long_members=content_members)


def check_length(value: bytes, limits: RuleLimits) -> None:
    """Raises `RuleRejected` for a record that is too long."""
    if len(value) > limits.max_list_record_bytes:
        problem = f"has {len(value)} bytes, at most {limits.max_list_record_bytes} are allowed: send a SET and ADDs"
        raise RuleRejected([Reason("record", problem)])


def encode_records(
    head: Mapping[str, object],
    kind: CollectionKind,
    operation: ListOperation,
    content: Sequence[T],
    member_of: Callable[[Sequence[T]], Mapping[str, object]],
    most_bytes: int,
) -> list[bytes]:
    """Encode a change of any length as records of at most `most_bytes`: a SET and ADDs, or several ADDs or REMOVEs.

    `head` has the other members, and `member_of` makes the content's member from a part of the content.
    """
    records = []
    for part in _parts(content, most_bytes - min(_RECORD_TARGET_BYTES, most_bytes // 4)):
        named = {f"{kind}Name": head[f"{kind}Name"], f"{kind}Operation": operation.value}
        members = {} if operation is ListOperation.DELETE else member_of(part)
        records.append(_encode({**named, **head, **members, "source": head["source"]}))
        if operation is ListOperation.SET:
            operation = ListOperation.ADD
    return records


def _parts(content: Sequence[T], most_bytes: int) -> Iterator[Sequence[T]]:
    start, used = 0, 0
    for position, each in enumerate(content):
        size = len(_encode(each)) + 1
        if used + size > most_bytes and position > start:
            yield content[start:position]
            start, used = position, 0
        used += size
    yield content[start:]


@dataclass(slots=True)
class CollectionMembers:
    """Reads the members of a record, and collects the reasons for its rejection."""

    kind: CollectionKind
    members: Mapping[str, object]
    reasons: list[Reason]

    @classmethod
    def of(cls, kind: CollectionKind, decoded: DecodedObject, allowed: Sequence[str]) -> CollectionMembers:
        """A reader of a decoded record, whose members are among the allowed ones."""
        members = {name: value for name, value in decoded.members.items() if value is not None}
        reasons = list(decoded.reasons)
        reasons += [
            Reason(quote(name).strip("'"), f"is not a member of a {kind} record ({', '.join(allowed)})")
            for name in members
            if name not in allowed
        ]
        return cls(kind, members, reasons)

    def name(self) -> str:
        """The name of the collection; empty with a reason."""
        name = self.members.get(f"{self.kind}Name")
        if isinstance(name, str) and _NAME.fullmatch(name):
            return name
        got = "is required" if name is None else f"is {describe_value(name)}"
        self.reasons.append(Reason(f"{self.kind}Name", f"{got}; a {self.kind}'s name has the form {COLLECTION_NAME}"))
        return ""

    def operation(self) -> ListOperation | None:
        """The operation; None with a reason."""
        member = f"{self.kind}Operation"
        if member not in self.members:
            self.reasons.append(Reason(member, f"is required: one of {', '.join(ListOperation)}"))
        return self.choice(member, {each.value: each for each in ListOperation})

    def source(self) -> str | None:
        """The source; None without one."""
        source = self.members.get("source")
        if source is None or (isinstance(source, str) and SOURCE_NAME.fullmatch(source)):
            return source
        self.reasons.append(Reason("source", "must be a short lower-case word such as seed, ui, cli or cdc"))
        return None

    def choice(self, name: str, choices: Mapping[str, T]) -> T | None:
        """The value of a member with few choices; None without one, or with a reason."""
        value = self.members.get(name)
        found = choices.get(value) if isinstance(value, str) else None
        if found is None and value is not None:
            self.reasons.append(Reason(name, f"must be one of {', '.join(choices)}, not {describe_value(value)}"))
        return found

    def check(self) -> None:
        """Raises `RuleRejected` with all reasons."""
        if not self.reasons:
            return
        given = self.members.get(f"{self.kind}Name")
        name = given if isinstance(given, str) and _NAME.fullmatch(given) else None
        is_list = self.kind is CollectionKind.LIST
        reasons = dict.fromkeys(self.reasons)
        raise RuleRejected(reasons, list_name=name if is_list else None, map_name=None if is_list else name)


def content_reasons(member: str, faults: Iterator[tuple[str, str | None]], plural: str) -> list[Reason]:
    """The reasons for parts of the content, at most twenty, and the number of the others. A fault has its place, and
    is None for a valid part."""
    found = [Reason(member, f"{place} {fault}") for place, fault in faults if fault]
    more = len(found) - _MAX_CONTENT_REASONS
    rest = [Reason(member, f"{more} more {plural} have faults")] if more > 0 else []
    return found[:_MAX_CONTENT_REASONS] + rest
