"""Facts about the store as a whole."""

from __future__ import annotations

import uuid
from typing import Final

from sqlalchemy.orm import Session

from fraud_control.store.database import Database
from fraud_control.store.models import Fact

_STORE: Final = "store"


def store_id(database: Database) -> str:
    """Read or create the id of the store, which marks its records in the rule log."""
    with database.reading() as session:
        known = _known(session)
    if known is not None:
        return known
    with database.writing() as session:
        known = _known(session)
        if known is None:
            known = str(uuid.uuid4())
            session.add(Fact(name=_STORE, value=known))
    return known


def _known(session: Session) -> str | None:
    found = session.get(Fact, _STORE)
    return None if found is None else found.value
