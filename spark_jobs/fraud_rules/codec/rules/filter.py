"""The expression language of conditions: its grammar, and the bounds that apply before a text is parsed.

    paymentType = 'CSH' and (paymentAmount * 2 >= 100 or hour(eventTime, 'Europe/Berlin') < 6)

docs/semantics.md describes the language. `condition_types` checks the types and builds the tree. A text is never
executed as code. Its length, the depth of its parentheses and the number of its tokens are checked before it is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final, TypeVar

from lark import Lark, Token
from lark.exceptions import UnexpectedEOF, UnexpectedInput, UnexpectedToken

from fraud_rules.codec.rules.condition_types import ConditionBuilder
from fraud_rules.codec.rules.operand_types import JUDGED_MEMBERS, Part
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.expressions.expression import Digits, Expression
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.safe_text import is_unprintable, quote

__all__ = ["Predicate", "parse_filter", "parse_number"]

Tree = TypeVar("Tree", bound=Expression)

_GRAMMAR: Final = r"""
?start: or_expr
?or_expr: and_expr
        | and_expr (_OR and_expr)+                 -> any_of
?and_expr: not_expr
         | not_expr (_AND not_expr)+               -> all_of
?not_expr: _NOT not_expr                           -> negation
         | relation
?relation: sum
         | sum OPERATOR sum                        -> comparison
         | sum _BETWEEN sum _AND sum               -> between
         | sum _NOT _BETWEEN sum _AND sum          -> not_between
         | sum _IN "(" literals ")"                -> membership
         | sum _NOT _IN "(" literals ")"           -> not_membership
         | sum _IN _LIST "(" TEXT ")"              -> listed
         | sum _NOT _IN _LIST "(" TEXT ")"         -> not_listed
         | sum _LIKE TEXT                          -> like
         | sum _NOT _LIKE TEXT                     -> not_like
         | sum _IS _NULL                           -> is_null
         | sum _IS _NOT _NULL                      -> is_not_null
literals: literal ("," literal)*
?literal: NUMBER                                   -> number
        | MINUS NUMBER                             -> negative_number
        | PLUS NUMBER                             -> positive_number
        | TEXT                                     -> text
?sum: product
    | sum (PLUS | MINUS) product                  -> arithmetic
?product: signed
        | product (TIMES | DIVIDED) signed         -> arithmetic
?signed: MINUS signed                              -> negative
       | PLUS NUMBER                              -> positive_number
       | single
?single: NAME                                      -> name
       | NAME "(" (or_expr ("," or_expr)*)? ")"    -> call
       | NUMBER                                    -> number
       | TEXT                                      -> text
       | "(" or_expr ")"

_OR.2: /or(?![A-Za-z0-9_])/i
_AND.2: /and(?![A-Za-z0-9_])/i
_NOT.2: /not(?![A-Za-z0-9_])/i
_IN.2: /in(?![A-Za-z0-9_])/i
_LIST.2: /list(?=[ \t\r\n]*\()/i
_LIKE.2: /like(?![A-Za-z0-9_])/i
_IS.2: /is(?![A-Za-z0-9_])/i
_NULL.2: /null(?![A-Za-z0-9_])/i
_BETWEEN.2: /between(?![A-Za-z0-9_])/i
OPERATOR: "=" | "!=" | "<>" | ">=" | "<=" | ">" | "<"
PLUS: "+"
MINUS: "-"
TIMES: "*"
DIVIDED: "/"
NAME: /(?!(and|or|not|between)(?![A-Za-z0-9_]))[A-Za-z_][A-Za-z0-9_]*/i
NUMBER: /[0-9]+(\.[0-9]+)?(?![A-Za-z0-9_.])/
TEXT: /'([^']|'')*'/
%ignore /[ \t\r\n]+/
"""
_PARSER: Final = Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|[A-Za-z0-9_.]+|[^\sA-Za-z0-9_.]")
_REMEMBERED_FILTERS: Final = 512
_WORDS_AS_NAMES: Final = ("in", "is", "like")
"""Words that the lexer takes for names where the grammar expects an operand."""


@lru_cache(_REMEMBERED_FILTERS)
def parse_filter(text: str, schema: TransactionSchema, limits: RuleLimits, member: str = "filter") -> Predicate:
    """Parse a condition into its typed tree.

    Raises RuleRejected with reasons for the member of the rule that has the text: the first broken bound, or the syntax
    error, or all problems with names and types. The last trees stay in memory, because most revisions of a rule keep
    its filter.
    """
    return _parse(text, schema, limits, member, ConditionBuilder.condition)


@lru_cache(_REMEMBERED_FILTERS)
def parse_number(
    text: str, schema: TransactionSchema, limits: RuleLimits, member: str, own: Digits | None = None
) -> Expression:
    """Parse an expression of a number, as `parse_filter` parses a condition. `own` has the digits of the rule's own
    aggregate; None: the expression cannot read it."""
    return _parse(text, schema, limits, member, ConditionBuilder.quantity, own)


def _parse(
    text: str,
    schema: TransactionSchema,
    limits: RuleLimits,
    member: str,
    build: Callable[[ConditionBuilder, Part], Tree | None],
    own: Digits | None = None,
) -> Tree:
    excess = _excess(text, limits)
    if excess is not None:
        raise RuleRejected([Reason(member, excess)])
    builder = ConditionBuilder(schema, limits, is_judged_once=member.rpartition(".")[2] in JUDGED_MEMBERS, own=own)
    try:
        tree = build(builder, builder.transform(_PARSER.parse(text)))
    except UnexpectedInput as error:
        problems = [_where(error, text), *_unknown_names(text, builder)]
        raise RuleRejected([Reason(member, problem) for problem in problems]) from error
    if builder.problems or tree is None:
        raise RuleRejected([Reason(member, problem) for problem in builder.problems])
    return tree


def _excess(text: str, limits: RuleLimits) -> str | None:
    """Check the text without parsing it. Returns the first reason for rejection, or None."""
    if not text.strip():
        return "is empty; leave it out to let every transaction pass"
    if len(text) > limits.max_filter_chars:
        return f"has {len(text)} characters, at most {limits.max_filter_chars} are allowed"
    if is_unprintable(text):
        return "contains a NUL or half of a surrogate pair"
    tokens = _TOKEN.findall(text)
    if len(tokens) > limits.max_filter_tokens:
        return f"has {len(tokens)} words and signs, at most {limits.max_filter_tokens} are allowed"
    steps = [1 if sign == "(" else -1 for sign in tokens if sign in "()"]
    deepest = max(accumulate(steps), default=0)
    if deepest > limits.max_filter_depth:
        return f"is nested {deepest} levels deep, at most {limits.max_filter_depth} are allowed"
    return None


def _where(error: UnexpectedInput, text: str) -> str:
    if isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END"):
        return "is incomplete"
    position = error.pos_in_stream or 0
    return f"cannot be read from character {position + 1} on: {quote(text[position:])}"


def _unknown_names(text: str, builder: ConditionBuilder) -> Iterator[str]:
    """Yield a problem for each unknown field and function, up to the syntax error of the text."""
    parser = _PARSER.parse_interactive(text)
    tokens: list[Token] = []
    with suppress(UnexpectedInput):
        for token in parser.lexer_thread.lex(parser.parser_state):  # type: ignore[no-untyped-call]
            parser.feed_token(token)
            tokens.append(token)
    for token, after in pairwise([*tokens, Token("$END", "")]):
        if token.type == "NAME" and after.type == "LPAR":
            builder.function(token)
        elif token.type == "NAME" and token.lower() not in _WORDS_AS_NAMES:
            builder.name(token)
    yield from builder.problems
