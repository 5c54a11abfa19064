"""Each text of a condition has one canonical text, which reads back as the same condition."""

from __future__ import annotations

import pytest

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.model.limits import RuleLimits
from tests.support.conformance import load_schema

SCHEMA = load_schema("third_edition")
FILTERS = [
    ("payerId=1", "payeeId = 1"),
    ("1 < payeeId", "payeeId > 1"),
    ("payeeId <> 1.50", "payeeId != 1.5"),
    ("payeeId = -0.0", "payeeId = 0"),
    ("payeeId In (3, 1.0, 1, 3)", "payeeId in (1, 3)"),
    ("paymentType NOT in ('b','a')", "paymentType not in ('a', 'b')"),
    ("payeeId between 1 and 2", "payeeId >= 1 and payeeId <= 2"),
    ("not not payeeId = 1", "payeeId = 1"),
    ("not payeeId = 1", "not (payeeId = 1)"),
    ("payeeId=1 and(payeeId=2 and payeeId=3)", "payeeId = 1 and payeeId = 2 and payeeId = 3"),
    ("payeeId=1 or payeeId=2 and payeeId=3", "payeeId = 1 or payeeId = 2 and payeeId = 3"),
    ("(payeeId=1 or payeeId=2) and payeeId=3", "(payeeId = 1 or payeeId = 2) and payeeId = 3"),
    ("((((payeeId = 1))))", "payeeId = 1"),
    ("eventTime > '1970-01-01 00:00:01'", "eventTime > 1000"),
    ("paymentType\n=\t'it''s'", "paymentType = 'it''s'"),
    ("cardPresent", "cardPresent"),
    ("cardPresent = true", "cardPresent"),
    ("FALSE <> cardPresent", "cardPresent"),
    ("not cardPresent", "not (cardPresent)"),
    ("cardPresent = False", "not (cardPresent)"),
    ("not (cardPresent = false)", "cardPresent"),
    ("(cardPresent) and payeeId = 1", "cardPresent and payeeId = 1"),
    ("cardPresent is null", "cardPresent is null"),
    ("paymentAmount*2+1>11", "paymentAmount * 2 + 1 > 11"),
    ("1 < paymentAmount - (1 - 2) - 3", "paymentAmount - (1 - 2) - 3 > 1"),
    ("1 + 1 < payeeId", "1 + 1 < payeeId"),
    ("-(-payeeId) > - 1", "payeeId > -1"),
    ("-(payeeId + 1) / -(2.50) > 1", "-(payeeId + 1) / -2.5 > 1"),
    ("payeeId / (2 / 3) * 4 > 1", "payeeId / (2 / 3) * 4 > 1"),
    ("ROUND(payeeId, 0) = Abs(payeeId)", "round(payeeId) = abs(payeeId)"),
    ("round(payeeId, -2) = 1", "round(payeeId, -2) = 1"),
    ("hour(eventTime, 'UTC') = 1", "hour(eventTime) = 1"),
    ("hour(eventTime,'Europe/Berlin') = 1", "hour(eventTime, 'Europe/Berlin') = 1"),
    ("eventTime - '1970-01-01T00:00:01Z' > 1", "eventTime - 1000 > 1"),
    ("country NOT LIKE 'it''s\\%'", "country not like 'it''s\\%'"),
    ("country not in ('b', 'a')", "country not in ('a', 'b')"),
    ("cardPresent = (payeeId = 1)", "cardPresent = (payeeId = 1)"),
    ("coalesce((cardPresent), not cardPresent)", "coalesce(cardPresent, not (cardPresent))"),
    ("payeeId in (- 1, 2)", "payeeId in (-1, 2)"),
    ("(((payeeId))) + 1 is not null", "payeeId + 1 is not null"),
    ("payeeId not between 1 and 2 + 1", "not (payeeId >= 1 and payeeId <= 2 + 1)"),
    ("(payeeId = 1 or cardPresent) is null", "(payeeId = 1 or cardPresent) is null"),
]
WHENS = [
    ("beneficiaryId in list('mules')", "beneficiaryId in list('mules')"),
    ("payerId NOT IN LIST ( 'a-1_b' )", "payeeId not in list('a-1_b')"),
    ("not (paymentType in list('types')) or payeeId = 1", "not (paymentType in list('types')) or payeeId = 1"),
    ("lower(paymentType) in list('a')", "lower(paymentType) in list('a')"),
    ("coalesce(payeeId*2 in list('a'), false)", "coalesce(payeeId * 2 in list('a'), false)"),
    ("Previous( paymentAmount ) * 2 <paymentAmount", "previous(paymentAmount) * 2 < paymentAmount"),
    ("previous((country)) = country", "previous(country) = country"),
    ("10 > previous(payerId)", "previous(payeeId) < 10"),
    ("previous(cardPresent) and not cardPresent", "previous(cardPresent) and not (cardPresent)"),
    ("previous(country) is null", "previous(country) is null"),
    ("previous(payeeId) in list('mules')", "previous(payeeId) in list('mules')"),
    ("map('limits', previous(payeeId)) > 1", "map('limits', previous(payeeId)) > 1"),
    ("eventTime - previous(eventTime) <= 1.5", "eventTime - previous(eventTime) <= 1.5"),
]


@pytest.mark.parametrize(
    ("member", "text", "canonical"),
    [*(("filter", *each) for each in FILTERS), *(("when", *each) for each in WHENS)],
)
def test_a_text_is_read_and_written_again(member: str, text: str, canonical: str) -> None:
    tree, again = (parse_filter(each, SCHEMA, RuleLimits(), member) for each in (text, canonical))
    assert str(tree) == str(again) == canonical
    assert (again, hash(again)) == (tree, hash(tree))
