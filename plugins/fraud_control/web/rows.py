"""Combines rules of the service with the detector's reports and alerts into schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fastapi import Response

from fraud_control.composition import ControlPlane
from fraud_control.domain import read_models
from fraud_control.domain.item import ItemName
from fraud_control.service.reading.quality import NoisyRule
from fraud_control.service.rules.approved_content import ApprovedContents
from fraud_control.web.answer import answer
from fraud_control.web.convert import activation_of, pending_activation
from fraud_control.web.schemas import rules as schemas
from fraud_rules.engine.admission.cpu_cost import GROUPING_NS
from fraud_rules.runtime.clock import now_ms

_QUIET: Final = schemas.Quality.model_validate(NoisyRule())


def rows(plane: ControlPlane, found: Iterable[read_models.StoredRule]) -> list[schemas.RuleRow]:
    """Convert rules for a list."""
    noise, at_ms = plane.noise(), now_ms()
    return [_row(plane, row, noise, at_ms) for row in found]


def detail(plane: ControlPlane, found: read_models.RuleWithForms, status: int = 200) -> Response:
    """Build the response with one rule and its ETag. The status is 202 if the change waits for approval."""
    schema = schemas.RuleDetail(
        **vars(_row(plane, found.row, plane.noise(), now_ms())),
        yaml=found.yaml,
        text=found.text,
        says=found.says,
        author=found.author,
        next_states=list(found.next_states),
        cpu_ns=found.cpu_ns,
        grouping_cpu_ns=GROUPING_NS,
        measured_cpu_ns=plane.memory.rule_cpu_ns(found.row.log_version),
        named=list(found.named),
        named_by=list(found.named_by),
    )
    return answer(schema, status, {"ETag": f'"{found.row.revision}"'})


def revisions(
    plane: ControlPlane, rule_id: int, found: Iterable[read_models.Revision], approved: ApprovedContents
) -> list[schemas.Version]:
    """Add activations and earlier approvals to revisions."""
    return [
        schemas.Version(
            **vars(each),
            activation=activation(plane, each.log_version, ItemName.of_rule(rule_id)),
            approved=approved.covers(each.document),
        )
        for each in found
    ]


def activation(plane: ControlPlane, log_version: int | None, item: ItemName) -> schemas.Activation | None:
    """Find the detector's report about a record; None for a change that is not in the rule log."""
    if log_version is None:
        return None
    operation = plane.memory.operation(log_version, item)
    return pending_activation(log_version, item) if operation is None else activation_of(operation)


def _row(
    plane: ControlPlane, row: read_models.StoredRule, noise: Mapping[int, NoisyRule], at_ms: int
) -> schemas.RuleRow:
    hour, noisy = plane.memory.hour(row.rule_id, at_ms), noise.get(row.rule_id)
    return schemas.RuleRow(
        **vars(row),
        activation=activation(plane, row.log_version, ItemName.of_rule(row.rule_id)),
        pending_approval=row.pending,
        alerts_last_hour=hour,
        quality=_QUIET if noisy is None else schemas.Quality.model_validate(noisy),
    )
