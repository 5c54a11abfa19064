"""Intents and releases: validity, and the equality of releases."""

from __future__ import annotations

import zipfile
from pathlib import Path

import msgspec
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.attempt import AttemptPhase
from fraud_rules.deploy.code import code_digest, code_digest_of_wheel
from fraud_rules.deploy.intent import NO_EPOCH, Intent, Rebuild, decode_intent, read_intents
from fraud_rules.deploy.local import release_of
from fraud_rules.deploy.release import Release, fingerprint, settings_of
from fraud_rules.errors import ConfigError, ReleaseInvalid
from fraud_rules.model.schema import TransactionSchema
from tests.support.deployments import RELEASE, drain, records_of, run


@pytest.mark.parametrize(
    ("log", "valid", "epoch"),
    [
        ([], [], NO_EPOCH),
        ([run(-1)], [0], 0),
        ([run(0)], [], NO_EPOCH),
        ([run(-1), run(-1)], [0], 0),  # two concurrent intents: the first is valid
        ([run(-1), run(-1), run(0)], [0, 2], 2),
        ([run(-1), drain(0), run(0)], [0, 1], 1),
        ([run(-1), run(1)], [0], 0),  # based on a void intent
        ([run(-1, detector="other"), run(0), run(-1)], [2], 2),
        ([run(-1), None, run(0)], [0, 2], 2),
    ],
)
def test_an_intent_is_valid_if_it_follows_the_newest_valid_one(
    log: list[Intent | None], valid: list[int], epoch: int
) -> None:
    folded = read_intents("cards", records_of(log, step_ms=10))
    assert [record.epoch for record in folded.valid] == valid
    assert folded.epoch == epoch
    assert list(folded.unreadable) == [offset for offset, each in enumerate(log) if each is None]


def test_an_intent_survives_its_encoding() -> None:
    intent = msgspec.structs.replace(run(3), resume=True, rebuild=Rebuild(partial=True))
    assert decode_intent(intent.encode()) == intent


def test_an_intent_without_newer_members_can_be_read_by_an_earlier_agent() -> None:
    assert b"acceptLoss" not in run(3).encode()
    assert b'"acceptLoss":true' in msgspec.structs.replace(run(3), accept_loss=True).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"",
        run(0).encode().replace(b"RUN", b"WALK"),
        run(0).encode().replace(b'"after"', b'"before":1,"after"'),
        run(0).encode().replace(b"RUN", b"DRAIN"),
        run(0).encode().replace(b'"attemptId":"a"', b'"attemptId":"../../../outside"'),
        run(0).encode().replace(b'"attemptId":"a"', b'"attemptId":""'),
    ],
)
def test_an_unknown_intent_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_intent(text)


def test_a_fingerprint_is_of_everything_in_a_release() -> None:
    changed = {
        "code": "b", "settings": "x", "schema": "x", "bootstrap": "x", "wheel": "x", "master": "x",
        "tasks": 3, "driver_memory": "1g", "spark": {"a": "b"}, "kafka_properties": "x", "ui_port": 1,
        "metrics": "x",
    }  # fmt: skip
    assert changed.keys() == set(RELEASE.__struct_fields__)
    others = [msgspec.structs.replace(RELEASE, **{name: value}) for name, value in changed.items()]
    assert len({fingerprint(each) for each in [RELEASE, *others]}) == len(others) + 1
    ordered, otherwise = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    one, other = (msgspec.structs.replace(RELEASE, spark=spark) for spark in (ordered, otherwise))
    assert fingerprint(one) == fingerprint(other)


def test_a_release_knows_its_settings() -> None:
    settings, schema = settings_of(RELEASE)
    assert settings.detector == "cards"
    assert schema.names == ("transactionId", "eventTime")


def test_an_invalid_release_names_all_faults() -> None:
    with pytest.raises(ConfigError, match=r"key_groups.*schema: must hold a list"):
        settings_of(msgspec.structs.replace(RELEASE, settings="key_groups: 0", schema="[]"))


def test_a_folder_stands_for_a_release(project: Project, tmp_path: Path) -> None:
    def of(config: Path, **environ: str) -> Release:
        return release_of(config, bootstrap="b:1", environ=environ)

    shipped = of(project.config)
    settings, schema = settings_of(shipped)
    assert (settings, schema) == (DetectorSettings(), TransactionSchema.load(project.config / "schema.yaml"))
    assert settings_of(of(project.config, FRAUD_TICK_MS="500"))[0].tick_ms == 500
    for name in ("detector.yaml", "schema.yaml"):
        (tmp_path / name).write_text("# a remark\n" + (project.config / name).read_text())
    assert fingerprint(of(tmp_path)) == fingerprint(shipped)


def test_a_wheel_has_the_digest_of_its_sources(project: Project, tmp_path: Path) -> None:
    sources = project.root / "spark_jobs"
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.write(sources / "detector.py", "detector.py")
        for file in (sources / "fraud_rules").rglob("*.py"):
            wheel.write(file, file.relative_to(sources).as_posix())
        wheel.writestr("fraud_rules-1.dist-info/METADATA", "")
    assert code_digest_of_wheel(tmp_path / "a.whl") == code_digest()
    with pytest.raises(ReleaseInvalid, match=r"no\.whl"):
        code_digest_of_wheel(tmp_path / "no.whl")


def test_phases() -> None:
    assert {phase for phase in AttemptPhase if phase.is_failure} < {p for p in AttemptPhase if p.is_terminal}
