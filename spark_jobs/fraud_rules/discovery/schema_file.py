"""The text of a proposed `schema.yaml`, with a comment for each field. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import yaml

from fraud_rules.discovery.proposal import Proposal, ProposedField
from fraud_rules.model.schema import Envelope, FieldType

_WIDTH: Final = 10_000


def schema_text(
    proposal: Proposal, envelope: Envelope, head: Sequence[str] = (), encoding: Mapping[str, object] | None = None
) -> str:
    """The text of a schema file. `head` are lines for the comment at its top, `encoding` the keys of the format."""
    lines = [f"# {line}".rstrip() for line in (*head, *_doubts(proposal))]
    if envelope is not Envelope.NONE:
        lines.append(f"unwrap: {envelope.value}")
    lines += [f"{name}: {_flow(value)}" for name, value in (encoding or {}).items()]
    lines.append("fields:")
    for proposed in proposal.fields:
        lines += _field(proposed)
    return "\n".join(lines) + "\n"


def _doubts(proposal: Proposal) -> Iterator[str]:
    if proposal.keys:
        yield f"Rules can group by {', '.join(proposal.keys)}."
    yield from (f"CHECK: {doubt}" for doubt in proposal.doubts)
    yield from (f"Left out: {reason}" for reason in proposal.left_out)


def _field(proposed: ProposedField) -> Iterator[str]:
    declared = proposed.field
    keys: dict[str, object] = {"name": declared.name, "type": declared.type.value}
    if declared.type is FieldType.DECIMAL:
        keys |= {"precision": declared.precision, "scale": declared.scale}
    if declared.nullable:
        keys["nullable"] = True
    keys |= declared.source.document()
    if proposed.values:
        keys["values"] = list(proposed.values)
    yield f"  # {_printable(proposed.comment)}"
    for position, (name, value) in enumerate(keys.items()):
        yield f"  {'- ' if position == 0 else '  '}{name}: {_flow(value)}"


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=_WIDTH, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
