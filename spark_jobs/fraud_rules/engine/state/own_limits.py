"""The limits of conditions that read the rule's own aggregate, computed while the kernel evaluates the rule.

The aggregate depends on the rows that the kernel has just accepted, and the outcome decides about marks that later rows
need. So the kernel calls `_Request` once the own aggregate has met its limit, and then compares the conditions with the
limits that this call has set.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from fraud_rules.engine.state.event_rows import limit_values
from fraud_rules.engine.state.previous_payments import ColumnsOf, PreviousPayments
from fraud_rules.engine.state.row_limits import row_limits
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import aggregate_of
from fraud_rules.engine.window.bundles import Arrivals, Ints
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.expressions.expression import Digits
from fraud_rules.model.expressions.lookups import lookups_of
from fraud_rules.model.expressions.own import OWN_COLUMN, own_digits
from fraud_rules.model.expressions.unscaled import constant
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column

_Request: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)


class OwnLimits:
    """Computes the limits of the rows of one batch.

    `address` is that of a function of a row and a rule, for the kernel; 0 if no condition reads the own aggregate.
    """

    def __init__(
        self,
        plan: GroupingPlan,
        schema: TransactionSchema,
        header: Ints,
        columns_of: ColumnsOf,
        previous: PreviousPayments | None,
    ) -> None:
        self._plan = plan
        self._schema = schema
        self._header = header
        self._columns_of = columns_of
        self._previous = previous
        self._arrivals: Arrivals
        self._limits: Sequence[Column] = ()
        self._output: Ints
        self._error: BaseException | None = None
        self.address = 0
        if plan.reads_own:
            self._request = _Request(self._answer)
            self.address = ctypes.cast(self._request, ctypes.c_void_p).value or 0

    def begin(self, arrivals: Arrivals, limits: Sequence[Column]) -> None:
        """Begin a call of the kernel. `limits` are the values of the plan's limits from row `limits_from` on."""
        self._arrivals, self._limits = arrivals, limits

    def write_to(self, output: Ints) -> None:
        """Use this output of the kernel. Its next row has the own aggregate of the rule."""
        self._output = output

    def check(self) -> None:
        """Raise the error of a request, because an error cannot pass through the kernel."""
        if self._error is not None:
            raise self._error

    def _answer(self, i: int, rule: int) -> None:
        try:
            self._set_limits(i, rule)
        except BaseException as error:  # noqa: BLE001 -- ctypes would print it and go on
            self._error = error

    def _set_limits(self, i: int, number: int) -> None:
        """Set the limits of the conditions of a rule for row i."""
        plan, rows = self._plan, self._plan.rules.rows
        own = self._own_value(number)
        first = int(rows[number, at.R_FIRST_CONDITION])
        used = rows[first : first + int(rows[number, at.R_CONDITIONS]), at.R_LIMIT]
        for k in sorted({limit for limit in used.tolist() if limit >= 0 and plan.limits[limit].reads_own}):
            limit = plan.limits[k]
            named = {OWN_COLUMN: own}
            if limit.previous is not None and self._previous is not None:
                named |= self._previous.named_columns(limit.previous, i - self._arrivals.limits_from)
            columns = self._columns_of(lookups_of([limit.expression]), i, i + 1, named)
            self._set(i, k, limit_values(limit, columns, 1))

    def _own_value(self, number: int) -> Column:
        """The own aggregate of a rule as a column of one row."""
        rule, row = self._plan.in_force[number].rule, self._output[self._header[at.H_OUT]].tolist()
        scale = self._schema.scale_of(rule.aggregate_field)
        text = aggregate_of(rule).render(row, scale)
        after = own_digits(rule.aggregate_function, Digits(0, scale)).after
        return Column(constant(int(Fraction(text) * int(10**after))), None, None)

    def _set(self, i: int, k: int, value: Column) -> None:
        """Set limit k of row i, for the kernel and for alerts."""
        place = i - self._arrivals.limits_from
        column = self._limits[k]
        assert column.valid is not None
        column.values[place] = value.values[0]
        column.valid[place] = value.valid is None or value.valid[0]
        one, all_limits = row_limits(self._plan.rules, [self._plan.limits[k]], [value], 1), self._arrivals.limits
        row = place * len(self._plan.limits) + k
        all_limits.rows[row], all_limits.ratios[row] = one.rows[0], one.ratios[0]
        if len(one.scales):
            all_limits.scales[row], all_limits.limits[row] = one.scales[0], one.limits[0]
