"""Validates a rule without saving it, and compares it with the stored rule."""

from __future__ import annotations

from fraud_control.domain.canonical import document_of
from fraud_control.domain.errors import Invalid
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import Document, ProblemReason, RuleInput, Validation
from fraud_control.domain.rule_input import ManagedMembers, differences, encode_rule
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.uses import check_collections
from fraud_control.service.ids import storable_id
from fraud_control.service.rules import queries
from fraud_control.service.rules.transitions import free_id
from fraud_control.store.models import ItemHead
from fraud_rules.codec.rules.known_values import unknown_values


def validate(work: UnitOfWork, rule_input: RuleInput, rule_id: int | None = None) -> Validation:
    """Validate a rule without saving it. `changes` compares it with the stored rule `rule_id`; without `rule_id`, with
    the stored rule that has the id of the input.
    """
    session, reader = work.session, work.reader
    known = None if rule_id is None else session.get(ItemHead, ItemName.of_rule(storable_id(rule_id)))
    managed = ManagedMembers(None, StateName.DRAFT, free_id=free_id(work))
    if known is not None:
        managed = ManagedMembers(known.number, StateName(known.state), known=document_of(known.document))
    try:
        rule = reader.rule(rule_input, managed, strict=known is not None)
        check_collections(session, rule)
        work.names.check(rule, managed.state)
    except Invalid as error:
        reasons = [ProblemReason.model_validate(reason) for reason in error.reasons]
        return Validation(
            valid=False, reasons=reasons, warnings=[], document=None, yaml=None, text=None, says=None, changes=[]
        )
    known = known or session.get(ItemHead, ItemName.of_rule(storable_id(rule.rule_id)))
    yaml, text, says = queries.forms(reader, encode_rule(rule), managed.state)
    before: Document = {} if known is None else document_of(known.document)
    return Validation(
        valid=True,
        reasons=[],
        warnings=[ProblemReason.model_validate(each) for each in unknown_values(rule, reader.schema)],
        document=dict(rule.document),
        yaml=yaml,
        text=text,
        says=says,
        changes=differences(before, rule.document),
    )
