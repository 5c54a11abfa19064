"""Days of a test's archive, evaluated in this process."""

from __future__ import annotations

import uuid

from fraud_rules.batch.reevaluation.run import DayCase, DayOptions, evaluate, prepare
from fraud_rules.batch.reevaluation.summing import DayAlerts
from fraud_rules.model.day import Day
from tests.support.nightly.archived import Site
from tests.support.nightly.in_process import in_process

FAR_MS = 2**50


def options(site: Site, day: Day, tasks: int = 2) -> DayOptions:
    return DayOptions(day, site.store, site.settings, site.schema, tasks)


def evaluated(site: Site, day: Day) -> tuple[DayCase, DayAlerts]:
    case = prepare(options(site, day), FAR_MS)
    found, _ = evaluate(case, in_process, uuid.uuid4().hex)
    return case, found
