"""Routes of the detector's panel and of what-ifs."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Path, Query, Response

from fraud_control.domain.errors import RequestRefused
from fraud_control.domain.read_models import RuleInput
from fraud_control.feed.events import FeedQuarantine
from fraud_control.service.alarm_log import OLD_MS
from fraud_control.service.panel import Panel
from fraud_control.service.rules.validation import validate
from fraud_control.service.whatif import WhatIfQuestion, WhatIfRun, WhatIfStatus
from fraud_control.store.alarm_models import AlarmRow
from fraud_control.web.answer import answer
from fraud_control.web.auth import CurrentActor
from fraud_control.web.convert import point_of
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.problems import WebError, problem
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import detector as schemas
from fraud_ops.alarms import severity_of
from fraud_ops.paths import report_path
from fraud_ops.runbooks import runbook_path
from fraud_ops.verdicts.verdict import Health
from fraud_rules.batch.whatif.place import report_name
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.kafka.decoding import skipped_by_topic
from fraud_rules.monitoring.liveness import Severity
from fraud_rules.runtime.clock import now_ms

routes = router("detector")


@routes.get("/progress", response_model=schemas.Progress, openapi_extra=least("viewer"))
def progress(plane: CurrentPlane, minutes: Annotated[int, Query(ge=1, le=60)] = 15) -> Response:
    """Read the detector's rate, lag and latency, and its late and quarantined records."""
    return answer(
        schemas.Progress(
            at=now_ms(),
            status=plane.panel.status(),
            gap_ms=plane.panel.longest_silence_ms,
            points=[point_of(group, before_ms) for group, before_ms in plane.panel.history(minutes)],
            late=[schemas.LateTransaction.model_validate(each) for each in reversed(plane.memory.late)],
            quarantine=[_quarantined(each) for each in reversed(plane.memory.quarantine)],
            readers=[schemas.ReaderShown.model_validate(each) for each in plane.readers.states],
            faults=[schemas.Fault(thread=name, fault=fault) for name, fault in plane.faults().items()],
            unreadable=skipped_by_topic(),
        )
    )


@routes.get("/alarms", response_model=schemas.Alarms, openapi_extra=least("viewer"))
def list_alarms(plane: CurrentPlane, open_only: Annotated[bool, Query(alias="open")] = False) -> Response:
    """List the recent alarms, and the connections that receive alarms. With `open`, list only alarms that are neither
    cleared nor old."""
    at_ms = now_ms()
    items = [each for each in (_alarm(row, at_ms) for row in plane.alarms()) if not (open_only and each.old)]
    return answer(schemas.Alarms(items=items, alarm_receivers=list(plane.alarm_receivers())))


@routes.get("/liveness", response_model=schemas.Liveness, openapi_extra=least("viewer"))
def get_liveness(plane: CurrentPlane) -> Response:
    """Read whether the detector evaluates payments now. Each page requests this every few seconds."""
    return answer(_liveness(plane.panel))


@routes.post(
    "/whatif",
    status_code=202,
    response_model=schemas.WhatIfStarted,
    openapi_extra=least("analyst", LaneName.READS),
)
def start_what_if(plane: CurrentPlane, who: CurrentActor, body: schemas.WhatIfRequest) -> Response:
    """Start the evaluation of a rule over past days. It publishes nothing."""
    if (body.document is None) == (body.text is None):
        raise WebError(422, "send the rule in one form: document or text")
    with plane.store.reading() as work:
        validated = validate(work, RuleInput(document=body.document, text=body.text))
    if not validated.valid or validated.document is None:
        return problem(422, "the rule is not valid", validated.reasons)
    if not all(limit.is_finite() and abs(limit.adjusted()) <= _DIGITS for limit in body.limits or ()):
        raise WebError(422, f"limits must be finite numbers of at most {_DIGITS} digits")
    if not plane.what_ifs.days():
        raise RequestRefused("no past day is archived yet: wait for the next run of fraud_archive")
    record = encode_document({**validated.document, "ruleState": "ACTIVE"})
    limits = tuple(body.limits or ())
    question = WhatIfQuestion(record, body.days, limits, body.windows, body.alerts_per_day, body.precision)
    run = plane.what_ifs.start(question, who.user, plane.settings.rates.what_ifs)
    return answer(schemas.WhatIfStarted(id=run.id), 202)


@routes.get("/archived-days", response_model=schemas.ArchivedDays, openapi_extra=least("analyst", LaneName.READS))
def list_archived_days(plane: CurrentPlane) -> Response:
    """List the archived days, on which a what-if can evaluate a rule."""
    days = [str(day) for day in plane.what_ifs.days()]
    return answer(schemas.ArchivedDays(days=days))


@routes.get("/whatif/{what_if_id}", response_model=schemas.WhatIf, openapi_extra=least("analyst"))
def get_what_if(plane: CurrentPlane, what_if_id: Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]) -> Response:
    """Read the progress and the result of a what-if."""
    return answer(_what_if(plane.what_ifs.get(what_if_id)))


def _alarm(row: AlarmRow, at_ms: int) -> schemas.AlarmShown:
    return schemas.AlarmShown(
        id=row.id,
        name=row.name,
        severity=severity_of(row.name).value,
        part=row.part,
        said=row.said,
        source=row.source if row.source.startswith(("https://", "http://")) else "",
        runbook=runbook_path(row.name),
        receivers=row.receivers.split(),
        first=row.first_ms,
        last=row.last_ms,
        count=row.count,
        cleared=row.cleared_ms,
        old=row.cleared_ms is not None or at_ms - row.last_ms >= OLD_MS,
    )


def _liveness(panel: Panel) -> schemas.Liveness:
    seen, verdict = panel.liveness(), panel.verdict()
    return schemas.Liveness(
        severity=seen.severity.value,
        at=seen.at_ms,
        since=seen.since_ms,
        asked=seen.asked_ms,
        waiting=seen.waiting,
        starts=seen.starts,
        missing=list(seen.missing),
        open_transaction=seen.open_transaction,
        verdict=schemas.VerdictShown(
            name=verdict.health.value,
            since=panel.verdict_since_ms(verdict),
            tone=_tone(verdict.health, seen.severity),
            reasons=list(verdict.reasons),
            runbook=runbook_path(verdict.health),
        ),
    )


def _tone(health: Health, severity: Severity) -> Literal["good", "warn", "bad"]:
    if severity is Severity.RED or not health.is_well:
        return "bad"
    return "good" if severity is Severity.NONE and health is Health.HEALTHY else "warn"


_DIGITS = 38
_result = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


def _quarantined(seen: FeedQuarantine) -> schemas.Quarantined:
    said = dict(seen.headers)
    return schemas.Quarantined(
        reason=said.get("reason", ""),
        detail=said.get("detail", ""),
        topic=said.get("topic", ""),
        partition=_whole(said.get("partition")),
        offset=_whole(said.get("offset")),
        time=seen.append_ms,
        text=seen.begins,
    )


def _whole(text: str | None) -> int:
    """Parse a header as a number of at most 18 digits; -1 for any other header."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else -1


def _what_if(run: WhatIfRun) -> schemas.WhatIf:
    result = None if run.result is None else _result(run.result)
    done = run.status in (WhatIfStatus.DONE, WhatIfStatus.FAILED)
    return schemas.WhatIf(
        id=run.id,
        status=run.status.value,
        progress={WhatIfStatus.WAITING: 0.0, WhatIfStatus.RUNNING: 0.5}.get(run.status, 1.0) if not done else 1.0,
        result=result,
        report=None if result is None else _report(result),
        said=run.said,
    )


def _report(result: dict[str, object]) -> str | None:
    """Find the address of the page that the what-if wrote."""
    at_ms, rule = result.get("evaluatedMs"), result.get("rule")
    if not isinstance(at_ms, int) or not isinstance(rule, dict):
        return None
    return report_path("whatif", report_name(at_ms, rule.get("ruleId")))
