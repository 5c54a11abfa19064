"""A damaged or foreign checkpoint is refused by name. The start writes nothing and recreates nothing."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.engine.state.head import decode_head
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, DetectorStopped, StateDamaged
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.state_topic import HEAD
from tests.support.conformance import SCHEMAS
from tests.support.kafka.records import read_all
from tests.support.kafka.state_damage import Change, damaged_state
from tests.support.kafka.timed_topics import Logs, timed_topics
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.running_detector import Installation, covers
from tests.support.recovery.verdict import differences
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

START_MS = 1_700_000_000_000
ROUNDS = 6
RULE = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["payeeId"],
    "aggregatorFunctionType": "SUM",
    "aggregateFieldName": "paymentAmount",
    "limitOperatorType": ">",
    "limit": 5,
    "windowSeconds": 60,
}
OUTPUTS = (
    "alerts", "shadow_alerts", "decisions", "restrictions", "late_transactions", "quarantine", "rule_operations",
    "current_rules", "detector_progress",
)  # fmt: skip


@dataclass
class Site:
    """A detector that has worked and ended cleanly. `older` is a copy of its checkpoint from some batches before."""

    installation: Installation
    detectors: DetectorsInTurn
    logs: Logs
    older: Path
    documents: dict[bytes, dict[str, Any] | None]
    now_ms: int = START_MS

    def work(self, rounds: int = 1) -> None:
        """Let the running detector evaluate more transactions, one batch per round."""
        for _ in range(rounds):
            for number in range(8):
                self.now_ms += 500
                tx = {
                    "transactionId": len(self.documents) + 1,
                    "eventTime": self.now_ms - 100 * number,
                    "payeeId": number % 3,
                    "beneficiaryId": number,
                    "paymentType": "CSH",
                    "paymentAmount": "1.25",
                }
                record = json.dumps(tx).encode()
                self.documents[record] = tx
                self.logs.append(record, self.now_ms, number % 2)
            self.await_evaluated()

    def await_evaluated(self) -> None:
        """Return once everything is evaluated."""
        self.logs.flush()
        until(self._has_evaluated, "everything is evaluated")

    def _has_evaluated(self) -> bool:
        progress = self.installation.progress()
        return bool(progress) and covers(
            progress[-1], self.logs.ends, self.installation.topics.names, self.logs.rules_end
        )

    def written(self) -> dict[str, list[Any]]:
        """The committed records of the output topics, by role."""
        bootstrap = self.installation.topics.bootstrap
        topics = {role: getattr(self.installation.topics.names, role) for role in OUTPUTS}
        await_settled(self.installation.topics.kafka, topics.values())
        return {
            role: [(message.offset(), message.value()) for message in read_all(bootstrap, topic)]
            for role, topic in topics.items()
        }


@pytest.fixture(scope="module")
def site(broker: Broker, project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("site")
    installation = Installation.make(home / "detector", project, timed_topics(broker, project), tick_ms=500)
    (home / "turn").mkdir()
    detectors = DetectorsInTurn(home / "turn", project)
    try:
        site = Site(installation, detectors, Logs(installation.topics), home / "older", {})
        site.logs.append_rule(json.dumps(RULE).encode(), START_MS)
        detectors.begin(installation)
        detectors.wait_ready()
        site.work(ROUNDS)
        assert detectors.stop() == 0
        shutil.copytree(installation.checkpoint, site.older)
        detectors.begin(installation)
        detectors.wait_ready()
        site.work(ROUNDS)
        assert detectors.stop() == 0
        yield site
    finally:
        detectors.end()


Damage = Callable[[Path], None]


def last_batch(checkpoint: Path) -> int:
    """The last finished batch. Another one may be planned and not started."""
    return max(batches(checkpoint / "commits"))


def batches(log: Path) -> list[int]:
    return [int(file.name) for file in log.iterdir() if file.name.isdigit()]


def gone(*files: str) -> Damage:
    """Files or folders are missing."""

    def damage(checkpoint: Path) -> None:
        for name in files:
            path = checkpoint / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def batch_gone(log: str, back: int) -> Damage:
    """The file of the batch `back` before the last finished one is missing."""

    def damage(checkpoint: Path) -> None:
        remove(checkpoint, log, range(last_batch(checkpoint) - back, last_batch(checkpoint) - back + 1))

    return damage


def end_gone(log: str, count: int = 1) -> Damage:
    """The files of the last finished batches and of later planned batches are missing."""

    def damage(checkpoint: Path) -> None:
        last = last_batch(checkpoint)
        remove(checkpoint, log, range(last - count + 1, last + 2))

    return damage


def remove(checkpoint: Path, log: str, doomed: range) -> None:
    for batch in doomed:
        for name in (str(batch), f".{batch}.crc"):
            (checkpoint / log / name).unlink(missing_ok=True)


def rewritten(name: str, content: Callable[[bytes], bytes]) -> Damage:
    """A file, or the file of the last batch in a log, has other content, as after a torn write or a manual edit."""

    def damage(checkpoint: Path) -> None:
        path = checkpoint / name
        path = path / str(last_batch(checkpoint)) if path.is_dir() else path
        path.write_bytes(content(path.read_bytes()))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    return damage


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def nothing(_: bytes) -> bytes:
    return b""


def older(head: bytes) -> bytes:
    decoded = decode_head(head)
    return msgspec.msgpack.encode(msgspec.structs.replace(decoded, version=decoded.version - 1))


def other_query(content: bytes) -> bytes:
    return json.dumps({**json.loads(content), "id": "00000000-0000-4000-8000-000000000000"}).encode()


DAMAGED = {
    "manifest missing": (gone("detector.json"), "detector.json"),
    "manifest cut short": (rewritten("detector.json", half), "detector.json"),
    "metadata missing": (gone("metadata"), "metadata"),
    "metadata cut short": (rewritten("metadata", half), "metadata"),
    "metadata empty": (rewritten("metadata", nothing), "metadata"),
    "last offsets missing": (end_gone("offsets"), "plans up to batch"),
    "all offsets missing": (gone("offsets"), "plans up to batch"),
    "a gap in the offsets": (batch_gone("offsets", 2), "offsets has gaps"),
    "last offsets cut short": (rewritten("offsets", half), "offsets/"),
    "last offsets empty": (rewritten("offsets", nothing), "offsets/"),
    "two commits missing": (end_gone("commits", 2), "plans up to batch"),
    "all commits missing": (gone("commits"), "plans up to batch"),
    "a gap in the commits": (batch_gone("commits", 3), "commits has gaps"),
    "last commit cut short": (rewritten("commits", half), "commits/"),
    "last commit empty": (rewritten("commits", nothing), "commits/"),
    "last pin missing": (end_gone("pins"), "pins lacks"),
    "all pins missing": (gone("pins"), "pins lacks"),
    "last pin cut short": (rewritten("pins", half), "pins/"),
    "last pin of another batch": (rewritten("pins", lambda pin: pin.replace(b'"batchId":', b'"batchId":9')), "pins/"),
}

STATE: dict[str, tuple[Change, str]] = {
    "heads missing": (lambda name, blob: None if name == HEAD else blob, "does not hold version"),
    "heads of another version": (lambda name, blob: older(blob) if name == HEAD else blob, "does not hold version"),
    "chunks missing": (lambda name, blob: blob if name == HEAD else None, "has lost chunk"),
}

FOREIGN = {
    "of another query": (rewritten("metadata", other_query), "belongs to query 00000000"),
    "of another rule log": (
        rewritten("detector.json", lambda manifest: re.sub(rb'(-rules": ")[^"]*', rb"\1AAAA", manifest)),
        "made for an earlier topic",
    ),
    "with other pins": (
        rewritten("pins", lambda pin: pin.replace(b'"rulesEnd":1', b'"rulesEnd":0')),
        "another pin for batch",
    ),
}


def refused(site: Site, checkpoint: Path, code: int, says: str, installation: Installation | None = None) -> None:
    """Check that a start ends with this exit code and message, and writes neither to the checkpoint nor to Kafka."""
    files, written = _files(checkpoint), site.written()
    site.detectors.begin(installation or site.installation, checkpoint=checkpoint)
    assert site.detectors.wait_end() == code, site.detectors.said()
    assert says in site.detectors.said()
    assert _files(checkpoint) == files
    assert site.written() == written


def _files(checkpoint: Path) -> set[str]:
    """The files without those that an interrupted writer leaves."""
    return {str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*") if not path.name.startswith(".")}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_checkpoint_is_refused(damage: str, site: Site, tmp_path: Path) -> None:
    harm, says = DAMAGED[damage]
    copy = Path(shutil.copytree(site.installation.checkpoint, tmp_path / "copy"))
    harm(copy)
    refused(site, copy, CheckpointDamaged.exit_code, says)


@pytest.mark.parametrize("damage", STATE)
def test_incomplete_state_is_refused(damage: str, site: Site, tmp_path: Path) -> None:
    """The tasks of the first batch restore the state, because the copy has no views. The batch has no effect."""
    change, says = STATE[damage]
    copy = Path(shutil.copytree(site.installation.checkpoint, tmp_path / "copy"))
    finished, written = batches(copy / "commits"), site.written()
    with damaged_state(site.installation.topics, site.installation.settings.detector, change):
        site.detectors.begin(site.installation, checkpoint=copy)
        assert site.detectors.wait_end() == StateDamaged.exit_code, site.detectors.said()
        assert says in site.detectors.said()
    assert batches(copy / "commits") == finished
    assert site.written() == written


@pytest.mark.parametrize("damage", FOREIGN)
def test_a_checkpoint_that_contradicts_the_outputs_is_refused(damage: str, site: Site, tmp_path: Path) -> None:
    harm, says = FOREIGN[damage]
    copy = Path(shutil.copytree(site.installation.checkpoint, tmp_path / "copy"))
    harm(copy)
    refused(site, copy, CheckpointForeign.exit_code, says)


def test_a_checkpoint_older_than_the_outputs_is_refused(site: Site) -> None:
    refused(site, site.older, CheckpointDamaged.exit_code, "is an older copy")


def test_an_empty_checkpoint_is_refused_if_outputs_exist(site: Site, tmp_path: Path) -> None:
    site.detectors.begin(site.installation, checkpoint=tmp_path / "empty")
    assert site.detectors.wait_end() == CheckpointForeign.exit_code
    assert "restore its checkpoint" in site.detectors.said()


@pytest.mark.parametrize(
    ("settings", "says"), [({"detector": "another"}, "made with detector"), ({"key_groups": 4}, "made with keyGroups")]
)
def test_a_checkpoint_of_another_detector_is_refused(
    settings: dict[str, Any], says: str, site: Site, tmp_path: Path
) -> None:
    known = site.installation
    other = Installation.make(tmp_path / "other", known.project, known.topics, **settings)
    refused(site, known.checkpoint, CheckpointForeign.exit_code, says, other)


def test_a_checkpoint_of_another_kafka_is_refused(site: Site, broker: Broker, project: Project, tmp_path: Path) -> None:
    other = Installation.make(tmp_path / "other", project, timed_topics(broker, project))
    refused(site, site.installation.checkpoint, CheckpointForeign.exit_code, "not an input now", other)


def test_a_checkpoint_of_another_schema_is_refused(site: Site) -> None:
    other = dataclasses.replace(site.installation, schema=SCHEMAS["nullable"])
    refused(site, site.installation.checkpoint, CheckpointForeign.exit_code, "made with field", other)


def test_a_checkpoint_that_cannot_be_written_is_refused_by_name(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    site.detectors.begin(site.installation, checkpoint=tmp_path / "file" / "checkpoint")
    assert site.detectors.wait_end() == CheckpointDamaged.exit_code
    assert "cannot be used" in site.detectors.said()


def test_a_repeated_batch_writes_nothing_new(site: Site) -> None:
    """The last commit file is missing, so Spark repeats the batch. Its outputs are in Kafka already."""
    before = site.written()
    for log in ("offsets", "pins"):  # the next batch, planned and not started
        last = last_batch(site.installation.checkpoint)
        remove(site.installation.checkpoint, log, range(last + 1, last + 2))
    end_gone("commits")(site.installation.checkpoint)
    site.detectors.begin(site.installation)
    site.detectors.wait_ready()
    until(lambda: len(site.written()["detector_progress"]) > len(before["detector_progress"]), "a new batch")
    after = site.written()
    assert {role: after[role] for role in OUTPUTS[:-1]} == {role: before[role] for role in OUTPUTS[:-1]}
    site.work(2)
    assert site.detectors.stop() == 0
    assert not differences(site.installation, site.documents)[0]


def test_a_stop_in_the_rule_log_holds_until_an_explicit_start(site: Site) -> None:
    site.detectors.begin(site.installation)
    site.detectors.wait_ready()
    site.now_ms += 1
    site.logs.append_rule(b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL_STOP"}', site.now_ms)
    site.logs.flush()
    assert site.detectors.wait_end() == DetectorStopped.exit_code
    written = site.written()
    site.detectors.begin(site.installation)
    assert site.detectors.wait_end() == DetectorStopped.exit_code
    assert site.written() == written
    for flags in (["--resume"], []):  # the stop stays lifted
        site.detectors.begin(site.installation, *flags)
        site.detectors.wait_ready()
        site.work(1)
        assert site.detectors.stop() == 0
    assert not differences(site.installation, site.documents)[0]
