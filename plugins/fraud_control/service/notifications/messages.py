"""The contents of notifications: title, text, page and data. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from fraud_control.domain.canonical import decoded, encoded
from fraud_control.domain.item import LIST, MAP
from fraud_control.domain.masking import Mask, plain
from fraud_control.feed.events import FeedAlert
from fraud_ops.alarms import Alarm, RaisedAlarm, encode_alarm
from fraud_ops.paths import PAGES
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.runtime.clock import utc_text
from fraud_rules.runtime.grouped_number import grouped
from fraud_rules.runtime.safe_text import scalar_text

_TITLE_CHARS: Final = 200
_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a notification. `path` is the path of the page about it, `data` is JSON."""

    type: str
    title: str
    text: str
    path: str
    data: str


@dataclass(frozen=True, slots=True)
class AlertedRule:
    """The rule in an alert, as far as notifications show it. Texts are empty if the rule lacks them. `conditions` is
    the number of its conditions if only these decide, else 0."""

    rule_id: int
    name: str
    severity: str
    owner: str
    limit: str
    conditions: int = 0


def alerted_rule(alert: FeedAlert) -> AlertedRule:
    """Read the rule of an alert. Another program may have written it in another form."""
    try:
        document = decoded(bytes(alert.facts.violated_rule))
    except UNDECODABLE:
        document = None
    members = document if isinstance(document, dict) else {}

    def text(member: str) -> str:
        value = members.get(member)
        return one_line(value) if isinstance(value, str) else ""

    operator, limit = members.get("limitOperatorType"), _member(alert.json, "limit") or members.get("limit")
    shown = "" if operator is None or limit is None else one_line(f"{operator} {grouped(str(limit))}")
    conditions = members.get("conditions")
    deciding = len(conditions) if operator is None and isinstance(conditions, list) else 0
    return AlertedRule(alert.facts.rule_id, text("name"), text("severity"), text("owner"), shown, deciding)


def alert_content(alert: FeedAlert, rule: AlertedRule, mask: Mask = plain) -> Content:
    """The notification about one alert. Its data is the alert as published, with masked values."""
    facts = alert.facts
    shown = mask(dict(facts.key))
    key = one_line(", ".join(f"{name} {scalar_text(value)}" for name, value in shown.items())) or "all payments"
    payment = facts.triggering_event.transaction_id
    value = grouped(_member(alert.json, "triggeringValue"))
    if rule.conditions:
        compared = f"{value} of {rule.conditions} conditions hold"
    else:
        compared = f"{value} (limit {rule.limit})" if rule.limit else value
    lines = [
        f"{key}: {compared}" if compared else key,
        f"Payment {one_line(str(payment))}, {utc_text(facts.event_time)}",
    ]
    level = rule.severity.upper() or "ALERT"
    query = urlencode({"ruleId": facts.rule_id, "text": str(payment), "alert": facts.alert_id})
    return Content(
        "alert",
        one_line(f"[fraud] {level}: {_named(rule.rule_id, rule.name)}, {key}"),
        "\n".join(lines),
        f"{PAGES}/alerts?{query}",
        encoded(mask(decoded(alert.json))),
    )


def summary_content(data: Mapping[str, Any]) -> Content:
    """The notification about alerts that had none of their own. `data` has `count`, `since`, `until` and `rules`."""
    rules: Sequence[Mapping[str, Any]] = data["rules"]
    since, until = int(data["since"]), int(data["until"])
    query = urlencode({"since": since, "until": until + 1})
    return Content(
        "summary",
        f"[fraud] {data['count']:,} more alerts",
        "\n".join([f"{utc_text(since)} to {utc_text(until)}", *_rule_lines(rules)]),
        f"{PAGES}/alerts?{query}",
        encoded(data),
    )


def approval_content(data: Mapping[str, Any]) -> Content:
    """The notification about a request for approval. `data` has the members of the request."""
    names = {kind: data[f"{kind}Name"] for kind in (LIST, MAP)}
    subject = next((f"{kind} {name}" for kind, name in names.items() if name), "")
    subject = subject or _named(data["ruleId"], data["ruleName"])
    change = data["action"] if data["target"] is None else f"{data['action']} to {data['target']}"
    comment = one_line(data["comment"])
    return Content(
        "approval",
        one_line(f"[fraud] Approval requested: {subject}"),
        one_line(f"{data['requestedBy']} requests: {change}") + (f"\n{comment}" if comment else ""),
        f"{PAGES}/approvals",
        encoded(data),
    )


def snooze_content(data: Mapping[str, Any]) -> Content:
    """The notification about a snooze of an ACTIVE rule. `data` has the members of the snooze."""
    rule, reason = _named(data["ruleId"], data["ruleName"]), one_line(data["reason"])
    key = (
        "all keys"
        if data["key"] is None
        else one_line(", ".join(f"{k} {scalar_text(v)}" for k, v in data["key"].items()))
    )
    return Content(
        "snooze",
        one_line(f"[fraud] Snoozed: {rule}"),
        f"{one_line(data['who'])} snoozes {key} until {utc_text(data['until'])}" + (f"\n{reason}" if reason else ""),
        f"{PAGES}/rules/{data['ruleId']}",
        encoded(data),
    )


def handover_content(data: Mapping[str, Any]) -> Content:
    """The notification about a case that was handed over. `data` has the members of the case and the comment."""
    case = one_line(f"case {data['caseId']}, {data['entityField']} {data['entityValue']}")
    comment = one_line(data["comment"])
    return Content(
        "handover",
        one_line(f"[fraud] {data['severity'].upper()}: {case}"),
        one_line(f"{data['handedBy']} hands the case over to {data['assignee']}") + (f"\n{comment}" if comment else ""),
        f"{PAGES}/cases/{data['caseId']}",
        encoded(data),
    )


def departure_content(data: Mapping[str, Any], said: str) -> Content:
    """The notification about a rule outside of its prediction. `data` has the members of the departure."""
    rule = _named(data["ruleId"], data["ruleName"])
    title = one_line(f"[fraud] RULE_OFF_PREDICTION: {rule}")
    return Content("prediction", title, one_line(said), f"{PAGES}/rules/{data['ruleId']}?tab=outcome", encoded(data))


def alarm_content(alarm: Alarm) -> Content:
    """The notification about an alarm. Its data is the record of the topic `alarms`."""
    title = one_line(alarm.subject)
    data = encode_alarm(RaisedAlarm(alarm)).decode()
    return Content("alarm", title, one_line(alarm.said), f"{PAGES}/detector", data)


def digest_content(data: Mapping[str, Any]) -> Content:
    """The daily notification. `data` has `alerts`, `unreviewed`, `openApprovals`, `since`, `until` and `rules`."""
    rules: Sequence[Mapping[str, Any]] = data["rules"]
    counts = f"{data['alerts']:,} alerts, {data['unreviewed']:,} unreviewed; {data['openApprovals']:,} open approvals"
    return Content(
        "digest",
        f"[fraud] Daily digest: {data['alerts']:,} alerts",
        "\n".join([f"{utc_text(data['since'])} to {utc_text(data['until'])}", counts, *_rule_lines(rules)]),
        f"{PAGES}/today",
        encoded(data),
    )


def receiver_test_content(receiver: str, user: str) -> Content:
    """The notification by which a user tests a receiver."""
    text = one_line(f"{user} tested the receiver {receiver}. Notifications reach it.")
    data = encoded({"receiver": receiver, "user": user})
    return Content("test", "[fraud] Test notification", text, f"{PAGES}/notifications", data)


def one_line(text: str) -> str:
    """The text without line breaks and other characters that could forge a header, and with a limited length."""
    printable = "".join(each if each.isprintable() else " " for each in text[: 4 * _TITLE_CHARS])
    line = " ".join(printable.split())
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


def _rule_lines(rules: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        one_line(f"{each['count']:,} x {str(each['severity']).upper()} {_named(each['ruleId'], each['name'])}")
        for each in rules[:_LISTED]
    ]
    return [*lines, f"{len(rules) - _LISTED:,} more rules"] if len(rules) > _LISTED else lines


def _named(rule_id: int, name: str) -> str:
    return f"{name} (rule {rule_id})" if name else f"rule {rule_id}"


def _member(line: bytes, name: str) -> str:
    """A text or number of an alert; empty if it has another form."""
    try:
        value = decoded(line).get(name)
    except (msgspec.DecodeError, AttributeError):
        return ""
    return "" if value is None or isinstance(value, dict | list) else one_line(str(value))
