"""The keys of tickets: which of them sign, and which texts are none."""

from __future__ import annotations

import pytest

from fraud_ops.account import Account
from fraud_ops.tickets import Ticket, TicketInvalid, TicketKeys
from fraud_rules.errors import ConfigError

OLD, NEW = "o" * 32, "n" * 64
TICKET = Ticket(Account("FAB", "7", "Zo\u00eb"), by_browser=True)
NOW_S = 4_000_000_000


def test_a_ticket_goes_through_the_text() -> None:
    keys = TicketKeys(NEW)
    assert keys.read(keys.sign(TICKET, NOW_S)) == TICKET


def test_a_key_is_replaced_without_a_gap() -> None:
    old, both, new = TicketKeys(OLD), TicketKeys(f"{NEW} {OLD}"), TicketKeys(NEW)
    assert both.read(old.sign(TICKET, NOW_S)) == TICKET
    assert new.read(both.sign(TICKET, NOW_S)) == TICKET
    with pytest.raises(TicketInvalid, match="Signature"):
        new.read(old.sign(TICKET, NOW_S))


@pytest.mark.parametrize("text", ["", "short", f"{NEW} short", f"{NEW} {NEW} {NEW}"])
def test_other_texts_are_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="at least 32 characters") as refused:
        TicketKeys(text)
    assert "short" not in str(refused.value)
