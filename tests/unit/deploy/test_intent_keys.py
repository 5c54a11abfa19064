"""Signatures of intents: a record of another writer has none, and keys rotate without a gap."""

from __future__ import annotations

import json
import pickle
import stat
from pathlib import Path

import msgspec
import pytest

from fraud_rules.deploy.intent import IntentRecord, read_intents
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.errors import ConfigError, IntentForged
from fraud_rules.kafka.reader import Record
from tests.support.deployments import KEY, KEYS, records_of, run

OLD, NEW = "o" * 64, "n" * 64


def keys(*texts: str) -> IntentKeys:
    return IntentKeys("\n".join(texts), "a test")


def record(signed_by: IntentKeys = KEYS) -> IntentRecord:
    (found,) = read_intents("cards", records_of([run(-1)], keys=signed_by)).records
    return found


def test_a_signed_intent_is_accepted() -> None:
    KEYS.require(record())


def test_an_unsigned_intent_is_refused() -> None:
    (found,) = read_intents("cards", [Record(0, 0, None, run(-1).encode())]).records
    with pytest.raises(IntentForged, match="it has no signature"):
        KEYS.require(found)


def test_an_intent_of_another_key_is_refused() -> None:
    with pytest.raises(IntentForged, match="another key signed it"):
        KEYS.require(record(keys(OLD)))


def test_every_byte_of_an_intent_is_signed() -> None:
    (signed,) = records_of([run(-1)])
    assert signed.value is not None
    changed = Record(0, 0, None, signed.value.replace(b"local[2,4]", b"local[9,4]"), signed.headers)
    (found,) = read_intents("cards", [changed]).records
    assert found.intent != run(-1)
    with pytest.raises(IntentForged):
        KEYS.require(found)


def test_a_signed_intent_is_void_when_it_is_written_again() -> None:
    first, second = records_of([run(-1), run(0)])
    again = [first, second, Record(2, 0, None, first.value, first.headers), Record(3, 0, None, second.value)]
    assert [each.void for each in read_intents("cards", again).records] == [False, False, True, True]


def test_keys_rotate_without_a_gap() -> None:
    """The agent accepts the new key before a supervisor uses it, and the old one until no supervisor does."""
    agent_before, agent_during, agent_after = keys(OLD), keys(OLD, NEW), keys(NEW)
    supervisor_before, supervisor_after = keys(OLD), keys(NEW)
    for agent, supervisor in [
        (agent_before, supervisor_before),
        (agent_during, supervisor_before),
        (agent_during, supervisor_after),
        (agent_after, supervisor_after),
    ]:
        agent.require(record(supervisor))
    with pytest.raises(IntentForged):
        agent_after.require(record(supervisor_before))


@pytest.mark.parametrize("text", ["", "short", f"{OLD}\n{NEW}\n{KEY}", "x" * 31, "ü" * 40, "x" * 257])
def test_unusable_keys_are_named_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="a test must have one or two keys") as raised:
        IntentKeys(text, "a test")
    assert not text or text not in str(raised.value)


def test_the_agent_creates_its_key_once(tmp_path: Path) -> None:
    path = tmp_path / "agent" / "intent-keys"
    assert IntentKeys.create(path)
    content = path.read_text()
    assert not IntentKeys.create(path)
    assert path.read_text() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    IntentKeys.load(path).require(record(IntentKeys.load(path)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"intent-keys.*copy this file from the agent's host"):
        IntentKeys.load(tmp_path / "intent-keys")


def test_nothing_shows_a_key() -> None:
    assert KEY not in f"{KEYS} {KEYS!r}"
    for encode in (msgspec.json.encode, json.dumps, pickle.dumps):
        with pytest.raises(TypeError):
            encode(KEYS)  # type: ignore[operator]
