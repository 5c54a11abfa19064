"""Tickets: how Airflow's plugin tells the control plane which account is logged in.

A ticket is a JSON Web Token that both sign with one key, which serves nothing else: who has Airflow's own secrets is an
admin of Airflow. While a key is replaced, there are two, and the first one signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import jwt

from fraud_ops.account import Account
from fraud_rules.errors import ConfigError

HEADER: Final = "X-Fraud-Ticket"
"""The header that carries a ticket."""

_ALGORITHM: Final = "HS256"
_TICKET_S: Final = 60
SESSION_S: Final = 8 * 3_600
"""How long a session lasts, in s."""
_CLOCK_SKEW_S: Final = 30
_CLAIMS: Final = ("iss", "sub", "name", "browser", "state", "exp", "aud")
_SHORTEST_KEY: Final = 32


class Purpose(StrEnum):
    """What a ticket is for: one request, the beginning of a session, or the requests of a session. It is the audience
    of the token, so no ticket serves another purpose.
    """

    REQUEST = "fraud-control-plane"
    LOGIN = "fraud-control-login"
    SESSION = "fraud-control-session"


class TicketInvalid(Exception):
    """The ticket was not signed with the key, or it is too old. The text says which."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """An account that is logged in. `by_browser`: a cookie proved it, which a browser also adds to the requests of
    other sites.
    """

    account: Account
    by_browser: bool


class TicketKeys:
    """One key or two, which spaces separate. Raises ConfigError, which does not contain them, for other texts."""

    def __init__(self, text: str) -> None:
        self._keys: Sequence[str] = text.split()
        if not 1 <= len(self._keys) <= 2 or any(len(key) < _SHORTEST_KEY for key in self._keys):
            raise ConfigError(f"the key of tickets needs at least {_SHORTEST_KEY} characters: openssl rand -hex 32")

    def sign(self, ticket: Ticket, now_s: int, purpose: Purpose = Purpose.REQUEST, state: str = "") -> str:
        """Sign a ticket that is valid from `now_s`, a Unix time: a session for eight hours, others for a minute."""
        account = ticket.account
        claims = {
            "iss": account.issuer,
            "sub": account.id,
            "name": account.name,
            "browser": ticket.by_browser,
            "state": state,
            "aud": purpose.value,
            "exp": now_s + (SESSION_S if purpose is Purpose.SESSION else _TICKET_S),
        }
        return jwt.encode(claims, self._keys[0], _ALGORITHM)

    def read(self, text: str, purpose: Purpose = Purpose.REQUEST, state: str = "") -> Ticket:
        """Return the ticket, which must have been signed for this purpose and state. Raises TicketInvalid."""
        fault: jwt.InvalidTokenError | None = None
        for key in self._keys:
            try:
                claims = jwt.decode(
                    text,
                    key,
                    [_ALGORITHM],
                    audience=purpose.value,
                    leeway=_CLOCK_SKEW_S,
                    options={"require": list(_CLAIMS)},
                )
            except jwt.InvalidTokenError as error:
                fault = error
            else:
                if claims["state"] != state:
                    raise TicketInvalid("the ticket of Airflow's plugin belongs to another login")
                account = Account(str(claims["iss"]), str(claims["sub"]), str(claims["name"]))
                return Ticket(account, by_browser=claims["browser"] is not False)
        raise TicketInvalid(f"the ticket of Airflow's plugin is not valid: {fault}")
