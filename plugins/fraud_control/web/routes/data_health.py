"""The routes of the page *Data*, and of the figures of a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from fastapi import Path, Response

from fraud_control.web.answer import encode, json_answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.routing import least, router
from fraud_control.web.schemas.base import MAX_ID
from fraud_control.web.schemas.derived import list_of, model_of
from fraud_ops.runbooks import runbook_path
from fraud_rules.monitoring.data_faults import DataFault
from fraud_rules.monitoring.data_health import DataHealth, RuleFigures, data_health, rule_figures
from fraud_rules.runtime.clock import now_ms

routes = router("data-health")

_FAULTS: Final = {"faults": list_of(model_of(DataFault, {"runbook": str}))}
_FIGURES: Final = model_of(RuleFigures, _FAULTS)
_HEALTH: Final = model_of(DataHealth, {**_FAULTS, "recorded": bool})
"""`recorded` is false if the topic of the health does not exist. Each fault has the path of its runbook."""


@routes.get("/data-health", response_model=_HEALTH, openapi_extra=least("viewer", LaneName.READS))
def get_data_health(plane: CurrentPlane) -> Response:
    """Read the health of the payments: nulls by field, late and quarantined records, duplicates, new texts."""
    hours = plane.health_hours()
    found = data_health(hours or (), plane.schema.names, now_ms())
    shown = {**msgspec.to_builtins(found), "recorded": hours is not None, "faults": _faults(found.faults)}
    return json_answer(encode(shown))


@routes.get(
    "/data-health/rules/{rule_id}",
    response_model=_FIGURES,
    openapi_extra=least("viewer", LaneName.READS),
)
def get_rule_health(plane: CurrentPlane, rule_id: Annotated[int, Path(ge=1, le=MAX_ID)]) -> Response:
    """Read how often the filter and the `when` of a rule held, and its alerts, in the last eight days."""
    found = rule_figures(plane.health_hours() or (), rule_id, now_ms())
    return json_answer(encode({**msgspec.to_builtins(found), "faults": _faults(found.faults)}))


def _faults(faults: Sequence[DataFault]) -> list[dict[str, Any]]:
    return [{**msgspec.to_builtins(each), "runbook": runbook_path(each.verdict)} for each in faults]
