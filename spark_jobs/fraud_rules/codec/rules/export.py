"""Formats rules as files. An exported file reads back as the same rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum

import msgspec
import yaml

from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.codec.rules.members import MEMBERS
from fraud_rules.codec.rules.numbers import decimal_of
from fraud_rules.errors import InputInvalid
from fraud_rules.model.rule import Rule

_TEXT_MEMBERS = (
    "ruleId", "ruleState", "groupingKeyNames", "unique", "aggregateFieldName", "aggregatorFunctionType",
    "limitOperatorType", "limit", "windowMinutes",
)  # fmt: skip
_NOT_IN_TEXT = tuple(name for name in MEMBERS if name not in (*_TEXT_MEMBERS, "source"))
"""All other members, so that the text form drops none. The tool that reads a file names the source."""


class RuleFormat(StrEnum):
    """The format of a file of rules or lists."""

    JSON = "json"
    YAML = "yaml"
    TEXT = "text"


def export_rules(rules: Iterable[Rule], form: RuleFormat) -> str:
    """Format rules as a file, in order. Raises InputInvalid for a rule that the text form cannot express."""
    return export_documents([rule.document for rule in rules], form)


def export_documents(documents: Sequence[Mapping[str, object]], form: RuleFormat) -> str:
    """Format rules' documents as a file. Raises InputInvalid, as `export_rules` does."""
    match form:
        case RuleFormat.JSON:
            listed = b"[" + b",".join(map(encode_document, documents)) + b"]"
            return msgspec.json.format(listed, indent=2).decode() + "\n"
        case RuleFormat.YAML:
            plain = [dict(document) for document in documents]
            return yaml.dump(plain, Dumper=_ExactDumper, sort_keys=False, allow_unicode=True, width=100)
        case RuleFormat.TEXT:
            return "".join(f"{_text_line(document)}\n" for document in documents)


def _text_line(document: Mapping[str, object]) -> str:
    lost = [name for name in _NOT_IN_TEXT if name in document]
    if "limit" in document and decimal_of(document["limit"]) is None:
        lost.append("an expression as its limit")
    if lost:
        has = f"rule {document['ruleId']} has {', '.join(lost)}"
        raise InputInvalid(f"{has}, which cannot be expressed in one line: export json or yaml")
    return ",".join(_token(name, document.get(name)) for name in _TEXT_MEMBERS)


def _token(name: str, value: object) -> str:
    if name == "ruleId":
        return str(value)
    if isinstance(value, list):
        value = "&".join(map(str, value))
    elif isinstance(value, Decimal):
        value = f"{value:f}"
    return "" if value in (None, "") else f"({str(value).lower() if name == 'ruleState' else value})"


class _ExactDumper(yaml.CSafeDumper):
    """A YAML dumper that keeps the digits of numbers."""


def _represent_decimal(dumper: yaml.CSafeDumper, number: Decimal) -> yaml.ScalarNode:
    text = f"{number:f}"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{'float' if '.' in text else 'int'}", text)


_ExactDumper.add_representer(Decimal, _represent_decimal)
