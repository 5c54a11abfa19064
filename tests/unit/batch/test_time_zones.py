"""A night and a replay name the releases of the time zones that the batches used, if they use another one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fraud_rules.batch.archive.manifest import FileEntry
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.basis import Basis
from fraud_rules.batch.reevaluation.page import day_page
from fraud_rules.batch.reevaluation.report import DayResult, decode_result, encode_result
from fraud_rules.replay.recording import RecordedBatch, Recording
from fraud_rules.runtime.zones_release import other_releases, zones_release
from tests.support.nightly.archived import _progress
from tests.support.processes.fraud_command import fraud
from tests.unit.batch.test_cuts import DAY, DETECTOR, archive, log_file

CURRENT = zones_release()


def recording(*releases: str) -> Recording:
    """A recording whose batches used these releases."""
    return Recording([], [], [RecordedBatch({0: number}, 0, time_zones=each) for number, each in enumerate(releases)])


def test_the_cuts_of_a_day_have_the_releases_of_its_batches(tmp_path: Path) -> None:
    def written(store: ArchiveStore) -> Iterable[FileEntry]:
        releases = ["", "2019.1", CURRENT]
        values = [_progress(n, {"0": n}, 0, (), time_zones=release) for n, release in enumerate(releases)]
        yield log_file(store, [(n, DAY.start_ms + n, DETECTOR, value) for n, value in enumerate(values)])

    assert other_releases(archive(tmp_path, written).cuts(DAY, DAY, {}).time_zones) == ["2019.1"]


def test_the_report_of_a_day_names_the_other_releases() -> None:
    result = DayResult.empty(DAY, Basis(8, 0, {}), None, 0, publishes=True)
    assert b"time zones" not in day_page(result)
    result = msgspec.structs.replace(result, other_time_zones=["2019.1"])
    assert b"Batches of these days used another release of the time zones: 2019.1." in day_page(result)
    assert decode_result(encode_result(result)).other_time_zones == ["2019.1"]


def test_a_replay_warns_of_other_releases(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for releases, warning in [
        (("", CURRENT), ""),
        (
            (CURRENT, "2019.1", "2018.9"),
            "fraud: warning: the batches used another release of the time zones than this replay: 2018.9, 2019.1\n",
        ),
    ]:
        recording(*releases).write(path)
        ended = fraud("streams", "replay", str(path))
        assert (ended.exit_code, ended.err) == (0, warning)
        assert json.loads(ended.out)["alerts"] == []
        assert [each.time_zones for each in Recording.read(path.read_bytes()).batches] == list(releases)
