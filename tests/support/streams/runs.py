"""Generated streams as tests: one run of Hypothesis for each stream, which shrinks a stream that fails.

`FRAUD_STREAMS` sets the number of streams, `FRAUD_SEED` their seeds. Without `FRAUD_STREAMS` there are 100 streams, and
those after the first 5 of a test are long tests: they look for the same faults on other random streams.

Each stream is a run with a seed of its own, because one long run would spend five of six examples on variations of the
same few streams.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from hypothesis.strategies import SearchStrategy

from fraud_rules.model.schema import TransactionSchema

_WANTED = os.environ.get("FRAUD_STREAMS")
STREAMS = int(_WANTED or "100")
SEED = int(os.environ.get("FRAUD_SEED", "1"))
_SHRINKS = pytest.mark.timeout(900)
"""Hypothesis shrinks a failing stream for up to five minutes."""

# Hypothesis's first example is always the simplest document, the second a random one.
_ONE_STREAM = settings(
    max_examples=2,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)

Document = dict[str, Any]
Test = Callable[..., None]
_FIRST_ITEM, _AN_ITEM = 5, 25
_FURTHER = () if _WANTED else (pytest.mark.long,)
"""The marks of what the default run leaves to the long one. A user who asks for a number of streams gets all."""


class Family(NamedTuple):
    """Streams of one kind, how many of them are checked, and the schema of their payments."""

    streams: SearchStrategy[Any]
    size: int
    schema: TransactionSchema


def stream_seeds(streams: int, first_item: int = _FIRST_ITEM) -> Callable[[Test], Test]:
    """Call a test for each stream with the stream's seed. After the first item, which is in the default run, 25 streams
    are one item, because an item costs as much to collect, in each process of a run, as a stream to check."""

    def of_each(test: Test) -> Test:
        parts = [
            pytest.param(part, id=f"{part[0]}-{part[-1]}", marks=marks) for part, marks in _parts(streams, first_item)
        ]
        return _SHRINKS(pytest.mark.parametrize("stream_seed", parts)(_of_each_seed(test)))

    return of_each


def stream_families(families: Mapping[str, Family]) -> Callable[[Test], Test]:
    """Call a test for each stream of each family, like `stream_seeds`, with the stream's seed and its family."""
    items = [
        pytest.param(family, part, id=f"{name} {part[0]}-{part[-1]}", marks=marks)
        for name, family in families.items()
        for part, marks in _parts(family.size)
    ]

    def of_each(test: Test) -> Test:
        return _SHRINKS(pytest.mark.parametrize(("family", "stream_seed"), items)(_of_each_seed(test)))

    return of_each


def numbers(count: int, of_the_default_run: int) -> list[pytest.ParameterSet]:
    """Numbers from 0 as parameters of a test: of seeds, or of groups of streams. The further ones are long tests, which
    look for the same faults."""
    return [pytest.param(number, marks=() if number < of_the_default_run else _FURTHER) for number in range(count)]


def _parts(streams: int, first_item: int = _FIRST_ITEM) -> list[tuple[range, Sequence[pytest.MarkDecorator]]]:
    """The seeds of each item, and the marks of the item."""
    seeds = range(SEED * 1_000_000, SEED * 1_000_000 + max(streams, 1))
    further = [seeds[start : start + _AN_ITEM] for start in range(first_item, len(seeds), _AN_ITEM)]
    return [(seeds[:first_item], ()), *((part, _FURTHER) for part in further)]


def _of_each_seed(test: Test) -> Test:
    @functools.wraps(test)
    def each(stream_seed: range, **fixtures: Any) -> None:
        for one in stream_seed:
            print(f"stream {one}")  # noqa: T201 -- pytest shows the output of a failed test
            test(stream_seed=one, **fixtures)

    return each


def check_stream(stream_seed: int, strategy: SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Check the stream of a seed. `check` raises AssertionError; the error of the smallest such stream is raised."""

    @seed(stream_seed)
    @_ONE_STREAM
    @given(strategy)
    def one_stream(drawn: Any) -> None:
        check(drawn)

    one_stream()


def drawn(stream_seed: int, strategy: SearchStrategy[Any]) -> Any:
    """Draw the stream of a seed, for a test that is too slow to shrink it."""
    examples: list[Any] = []
    check_stream(stream_seed, strategy, examples.append)
    return examples[-1]


def check_long(document: Document, check: Callable[[Document], None]) -> None:
    """Check a document. If it fails, report its shortest failing beginning."""

    def fails(count: int) -> bool:
        try:
            check(beginning(document, count))
        except AssertionError:
            return True
        return False

    try:
        check(document)
    except AssertionError:
        counts, once = st.integers(1, len(document["steps"])), settings(_ONE_STREAM, max_examples=50)
        with suppress(NoSuchExample):
            check(beginning(document, find(counts, fails, settings=once)))
        raise


def beginning(document: Document, count: int) -> Document:
    """The first steps of a document, and the batches that they fill."""
    steps = document["steps"][:count]
    rules = sum("rule" in step for step in steps)
    rows: dict[str, int] = {}
    for step in steps:
        if "tx" in step:
            partition = str(step.get("partition", 0))
            rows[partition] = rows.get(partition, 0) + 1
    batches = [
        batch
        for batch in document.get("batches", [])
        if batch["pin"] <= rules
        and all(end <= rows.get(partition, 0) for partition, end in batch["offsets"]["transactions"].items())
    ]
    return {**document, "steps": steps, "batches": batches}


def described(differences: list[str], document: Mapping[str, Any]) -> str:
    """Format the differences, then the document with one line per step, as input for `fraud streams replay`."""
    head = {name: value for name, value in document.items() if name != "steps"}
    return "\n".join([*differences, json.dumps(head), *(json.dumps(step) for step in document["steps"])])
