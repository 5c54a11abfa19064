"""A store at an earlier version of its tables, which an upgrade brings to the newest one."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import text
from sqlalchemy.engine import Connection

from fraud_control.store import migrations

_ALERT = """
    INSERT INTO alerts (alert_id, append_ms, source, record_offset, rule_id, severity_rank, shadow, key,
        entity_field, entity_value, json)
    VALUES (:id, :at, 0, :at, 1, :rank, :shadow, '{}', 'payeeId', :payer, :json)
"""
_MARK = "INSERT INTO marks (alert_id, rule_id, rule_version, verdict, who, at_ms) VALUES (:id, 1, 1, 'FRAUD', 'ann', 1)"


def upgrade_to(connection: Connection, version: str) -> None:
    """Run the migrations up to a version."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def fill_version_6(connection: Connection) -> None:
    """Add alerts to the index of version 6: payer 7 with a marked and an unmarked one, payer 8 with marked ones only,
    payer 9 with a shadow alert, and alerts without a key.
    """
    upgrade_to(connection, "6")
    for number, (payer, rank, marked, shadow) in enumerate(
        [
            ("7", 1, True, False),
            ("8", 4, True, False),
            ("7", 3, False, False),
            ("9", 2, False, True),
            (None, 2, False, False),
        ]
    ):
        values = {
            "id": f"a{number}",
            "at": 1_000 + number,
            "rank": rank,
            "shadow": shadow,
            "payer": payer,
            "json": b"x",
        }
        connection.execute(text(_ALERT), values)
        if marked:
            connection.execute(text(_MARK), {"id": f"a{number}"})


def cases_after_upgrade(connection: Connection) -> list[tuple[object, ...]]:
    """Upgrade to the newest version; return each case with the ids of its alerts."""
    upgrade_to(connection, "head")
    found = connection.execute(
        text("SELECT case_id, open_entity, urgency, alerts, first_alert_ms, last_alert_ms, updated_by FROM cases")
    )
    alerts = text("SELECT alert_id FROM alerts WHERE case_id = :case ORDER BY alert_id")
    return [(*row[1:], list(connection.execute(alerts, {"case": row[0]}).scalars())) for row in found.all()]


EXPECTED: list[tuple[object, ...]] = [("payeeId:7", 1, 2, 1_000, 1_002, None, ["a0", "a2"])]
