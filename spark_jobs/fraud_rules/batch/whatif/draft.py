"""Finds the rule of a what-if: a file, its JSON, or the id of a rule in the archived log."""

from __future__ import annotations

from pathlib import Path

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.codec.rules.files import read_rule_file
from fraud_rules.errors import RuleRejected, RuleUnknown
from fraud_rules.model.collection_history import lookup_faults
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.rule_names import naming_faults
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema


def find_draft(named: str, log: RuleTimeline, schema: TransactionSchema, limits: RuleLimits) -> Rule:
    """Find the rule. Raises RuleUnknown, RuleRejected with every fault, InputInvalid for an unreadable file."""
    draft = _draft(named, log, schema, limits)
    known, rules = log.collections.by_name(), log.latest
    faults = lookup_faults(draft.lookups, lambda name: known[name].type if name in known else None)
    faults += naming_faults(draft, rules.rules.__contains__, rules.naming)
    if faults:
        raise RuleRejected(faults, draft.rule_id)
    return draft


def _draft(named: str, log: RuleTimeline, schema: TransactionSchema, limits: RuleLimits) -> Rule:
    if named.isascii() and named.isdigit():
        return _of_log(int(named), log)
    if named.lstrip().startswith("{"):
        return _rule(named.encode(), "the rule", schema, limits)
    path = Path(named)
    if not path.exists():
        raise RuleUnknown(f"{named} is neither a rule file nor the id of a rule")
    records = read_rule_file(path)
    if len(records) != 1:
        raise RuleUnknown(f"{named} holds {len(records)} rules: a what-if needs exactly one")
    return _rule(records[0].value, named, schema, limits)


def _rule(text: bytes, where: str, schema: TransactionSchema, limits: RuleLimits) -> Rule:
    change = parse_rule_record(text, schema, limits)
    if not isinstance(change, Rule):
        raise RuleUnknown(f"{where} is a deletion, a control, a list or a map: a what-if needs a rule")
    return change


def _of_log(rule_id: int, log: RuleTimeline) -> Rule:
    in_force = log.latest.rules.get(rule_id)
    if in_force is not None:
        return in_force.rule
    versions = [entry.version for entry in log.entries if isinstance(entry.change, Rule) and entry.rule_id == rule_id]
    if versions:
        raise RuleUnknown(f"rule {rule_id} was deleted after version {versions[-1]}: write the rule to a file")
    raise RuleUnknown(f"there is no rule {rule_id} in the archived rule log")
