"""Throughput with a thousand rules that share ten groupings."""

from __future__ import annotations

from collections.abc import Mapping

from bench.figures import Figure, Rows, Scale, at_least
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import many
from bench.lab import Lab
from bench.rows.backlog import APART_MS, throughput, warm_up

_RULES, _GROUPINGS = 1_000, 10
_TRANSACTIONS = 200_000


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with lab.session("many") as session:
        session.start(many(_RULES, _GROUPINGS))
        backlog = Backlog(session.bootstrap, session.names.transactions)
        before = warm_up(session, backlog, scale)
        load = UNIFORM_500K.first(scale.of(_TRANSACTIONS)).after(before, APART_MS)
        backlog.hold(transactions(load))
        started_ms = backlog.release()
        session.await_evaluated(before.count + load.count)
        per_s = throughput(session, load, started_ms)
    return {"per_s": per_s, "evaluations_per_s": per_s * _RULES / 1e6}


ROWS = (
    Rows(
        "many_rules",
        "Backlog, 1,000 rules sharing 10 groupings",
        "As above, over 200,000 transactions of `uniform_500k`. All eight aggregators and windows of 1 to 20 minutes "
        "take turns; every rule is evaluated for every transaction.",
        (
            Figure("per_s", "throughput", "tx/s", at_least(10_000), promise=True),
            Figure("evaluations_per_s", "rule evaluations", "million/s"),
        ),
        _measure,
    ),
)
