"""Generated streams through the running detector: a real broker, real Spark, real warm-up jobs, and the cuts and pins
that result.

The streams of a group share a detector and its logs. Each stream is a day or more later than the previous one, after
the deletion of all rules, lists and maps. The oracle evaluates the logs with the recorded batches. FRAUD_SEED repeats
the streams of a run, but not the cuts; a failure shows both as input for `fraud streams replay`.

Without FRAUD_STREAMS, only the first group without warm-ups is no long test: the kernel runs many streams in the
default tests, also with warm-ups, and `test_origins` has a warm-up of a running detector.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.logs.open_warm_ups import open_requests
from fraud_rules.logs.rule_status import WarmUpState, read_operations
from fraud_rules.replay.replay import replay
from tests.support import oracle
from tests.support.conformance import load_schema, same_answer
from tests.support.kafka.timed_topics import timed_topics
from tests.support.nightly.jobs import JobsInTurn
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.running_detector import Installation
from tests.support.recovery.watch import Watch
from tests.support.streams.features import ENTITIES, with_any_features
from tests.support.streams.generated import documents, warmed_documents
from tests.support.streams.runs import SEED, STREAMS, described, numbers
from tests.support.streams.site import Step, StreamSite, streams_in_time
from tests.support.streams.spans import Document, Span
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

GROUP = 25
WARMED_GROUP = 2
SCHEMA = replace(load_schema("nullable"), entities=ENTITIES)

Answer = Mapping[str, list[Any]]


def installed(broker: Broker, project: Project, home: Path, draw: random.Random) -> Installation:
    """A detector with drawn settings."""
    file = home / "schema.yaml"
    file.write_text(SCHEMA.text(), encoding="utf-8")
    return Installation.make(
        home, project, timed_topics(broker, project), file, tick_ms=500,
        limits={"detail_minutes": draw.choice([0, 1, 1_440])},
        key_groups=draw.choice([3, 1]), max_out_of_orderness_ms=draw.choice([1_000, 0, 500, 60_000]),
        future_tolerance_ms=draw.choice([300_000, 1_000]), row_output_bytes=draw.choice([1_024, 16_777_216]),
    )  # fmt: skip


def parts_of(steps: Sequence[Step], cuts: int, draw: random.Random) -> Iterator[Sequence[Step]]:
    """Cut a stream at drawn places."""
    places = sorted(draw.sample(range(1, len(steps)), min(cuts, len(steps) - 1)))
    for start, end in zip([0, *places], [*places, len(steps)], strict=True):
        yield steps[start:end]


def add_histories(site: StreamSite, jobs: JobsInTurn) -> None:
    """Run the warm-up job, and wait until the detector has added its results."""
    kafka, settings = site.installation.topics.kafka, site.installation.settings
    waiting = open_requests(kafka, settings).keys()
    if not waiting:
        return
    code, _, log = jobs.run("warm_up", site.installation)
    assert code == 0, log[-3000:]

    def have_ended() -> bool:
        reports = read_operations(kafka, settings.topics.rule_operations)
        states = [report.warm_up.state for v in waiting if (report := reports[v]).warm_up is not None]
        return all(state in (WarmUpState.WARM, WarmUpState.REFUSED) for state in states)

    until(have_ended, "the warm-ups end")


def faults(document: Document, answer: Answer) -> list[str]:
    """The differences between the oracle and the published answer."""
    expected = oracle.evaluate(document, SCHEMA)
    live_first = sorted(expected["alerts"], key=lambda alert: bool(alert.get("shadow")))
    counted = {part: expected[part] for part in ("duplicates", "conflictingDuplicates", "nullKeys")}
    published = {**answer, **counted}
    return same_answer({**expected, "alerts": live_first}, published)


def send(site: StreamSite, streams: Iterable[Sequence[Step]], draw: random.Random) -> Iterator[Span]:
    """Append each stream in two parts. Half of the streams wait for the evaluation of the first part.

    The running detector cuts the streams at other places too.
    """
    before = None
    for steps in streams:
        place = draw.randrange(len(steps))
        site.append(steps[:place])
        if draw.random() < 0.5:
            site.await_evaluated()
        site.append(steps[place:])
        yield site.span_from(before)
        site.append_end(steps)
        before = site.span_from(before)


@pytest.mark.parametrize("group", numbers(-(-STREAMS // GROUP), 1))
def test_the_running_detector_agrees_with_the_oracle(
    group: int, broker: Broker, project: Project, detectors: DetectorsInTurn, tmp_path: Path
) -> None:
    first = group * GROUP
    seeds = range(SEED * 1_000_000 + first, SEED * 1_000_000 + min(first + GROUP, STREAMS))
    draw = random.Random(seeds.start)
    installation = installed(broker, project, tmp_path, draw)
    detectors.begin(installation)
    detectors.wait_ready()
    with Watch(installation) as watch:
        site = StreamSite(installation, watch)
        streams = dict(streams_in_time(dict.fromkeys(seeds, with_any_features(documents()))))
        spans = dict(zip(streams, send(site, streams.values(), draw), strict=True))
        site.await_evaluated()
    assert detectors.stop() == 0, detectors.said()[-2000:]

    recorded, published = site.recorded(), site.published()
    attributed = 0
    for seed, span in spans.items():
        document, answer = span.part_of(recorded), published.of(span)
        found = faults(document, answer)
        assert not found, described([f"stream {seed}", *found], document)
        attributed += sum(len(answer[part]) for part in ("alerts", "decisions", "late", "quarantine"))
    assert attributed == published.count(), "an output belongs to no stream"


@pytest.mark.parametrize("group", numbers(max(2, STREAMS // 100), 0))
def test_the_running_detector_agrees_with_the_oracle_after_warm_ups(
    group: int, broker: Broker, project: Project, detectors: DetectorsInTurn, jobs: JobsInTurn, tmp_path: Path
) -> None:
    first = SEED * 1_000_000 + group * WARMED_GROUP
    draw = random.Random(first)
    installation = installed(broker, project, tmp_path, draw)
    detectors.begin(installation)
    detectors.wait_ready()
    with Watch(installation) as watch:
        site = StreamSite(installation, watch)
        seeds = range(first, first + WARMED_GROUP)
        for _, steps in streams_in_time(dict.fromkeys(seeds, with_any_features(warmed_documents()))):
            for part in parts_of(steps, 2, draw):
                site.append(part)
                site.await_evaluated()
                if draw.random() < 0.75:
                    add_histories(site, jobs)
            site.append_end(steps)
        site.await_evaluated()
    assert detectors.stop() == 0, detectors.said()[-2000:]
    assert "added without preparation" not in detectors.said()

    document, published = site.recorded(), site.published()
    found = same_answer(oracle.evaluate(document, SCHEMA), replay(document, SCHEMA, installation.settings))
    assert not found, described(found, document)
    found = faults(document, published.of(site.span_from()))
    assert not found, described(found, document)
    joined = [warm_up for batch in document["batches"] for warm_up in batch["warmUps"]]
    assert joined, "the detector added no history"
