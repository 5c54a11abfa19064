"""JSON Schemas of the output topics, from the types that their writers encode.

`python -m fraud_rules.logs.output_schemas` writes them to docs/schemas of the project, a file for each topic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.logs.data_health import HealthHour
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.logs.rule_status import RuleReportDocument
from fraud_rules.model.documents.alerts import AlertDocument, CorrectionDocument, RestrictionDocument
from fraud_rules.model.documents.rules import ExportedListDocument, ExportedMapDocument, ExportedRuleDocument
from fraud_rules.model.documents.transactions import DecisionDocument, EvaluationDocument, LateTransactionDocument

DOCUMENTS: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {
        "alerts": (AlertDocument,),
        "shadow_alerts": (AlertDocument,),
        "decisions": (DecisionDocument,),
        "alert_corrections": (CorrectionDocument,),
        "restrictions": (RestrictionDocument,),
        "late_transactions": (LateTransactionDocument,),
        "rule_operations": (RuleReportDocument,),
        "current_rules": (ExportedRuleDocument, ExportedListDocument, ExportedMapDocument),
        "detector_progress": (BatchProgress,),
        "data_health": (HealthHour,),
        "evaluations": (EvaluationDocument,),
    }
)
"""The types of the records of each topic, by its role (`TopicNames`). The other topics have no JSON for consumers."""

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PREFIX: Final = "#/$defs/"
_WORD: Final = re.compile(r"`([a-z]\w*)`", re.ASCII)


def schema_of(role: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the records of a topic."""
    types = DOCUMENTS[role]
    found, components = msgspec.json.schema_components(types, ref_template=_PREFIX + "{name}")
    names = {each.name: each.encode_name for kind in types for each in msgspec.structs.fields(kind)}
    schema: dict[str, Any] = _for_readers(
        {
            "$schema": _DIALECT,
            "title": f"Records of the topic {_name(role)}",
            **(found[0] if len(found) == 1 else {"anyOf": list(found)}),
            "$defs": dict(sorted(components.items())),
        },
        names,
    )
    return schema


def schema_files() -> dict[str, str]:
    """The contents of the files in docs/schemas, by name."""
    return {f"{_name(role)}.json": json.dumps(schema_of(role), indent=2) + "\n" for role in DOCUMENTS}


def subjects(topics: TopicNames) -> dict[str, str]:
    """The schemas of the output topics by their subjects in a registry."""
    return {f"{getattr(topics, role)}-value": json.dumps(schema_of(role)) for role in DOCUMENTS}


def _for_readers(part: Any, names: Mapping[str, str]) -> Any:
    """A part of a schema without `Raw`, which allows every value, and with the members' names in its descriptions."""
    if isinstance(part, list):
        return [_for_readers(each, names) for each in part if each != {}]
    if not isinstance(part, dict):
        return part
    kept = {name: _for_readers(each, names) for name, each in part.items()}
    if isinstance(text := kept.get("description"), str):
        words = " ".join(text.split()).replace("None", "null")
        kept["description"] = _WORD.sub(lambda found: f"`{_member(found[1], names)}`", words)
    if len(choices := kept.get("anyOf", [])) == 1:
        del kept["anyOf"]
        kept |= choices[0]
    return kept


def _member(name: str, names: Mapping[str, str]) -> str:
    first, *others = name.split("_")
    return names.get(name, first + "".join(each.capitalize() for each in others))


def _name(role: str) -> str:
    return role.replace("_", "-")


if __name__ == "__main__":
    folder = Project.find().root / "docs" / "schemas"
    folder.mkdir(exist_ok=True)
    for name, text in schema_files().items():
        (folder / name).write_text(text, encoding="utf-8")
