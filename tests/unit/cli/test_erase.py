"""`fraud erase` erases in the store and in the archive, and writes a signed certificate without the id."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fraud_rules.batch.archive.files import read_log
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.proof.document import Seal
from fraud_rules.proof.signature import check_signature
from tests.support.processes.fraud_command import fraud
from tests.support.receivers.answering import Request, answering
from tests.unit.batch.test_archive_erasing import alert, log

PAYER = "4711004711"
ANSWER = {"person": "id:5e", "fields": ["payeeId"], "erased": {"alerts": 2}, "lists": ["blocked"], "maps": []}


def test_an_erasure_writes_a_signed_certificate_without_the_id(tmp_path: Path) -> None:
    key, archive, output = tmp_path / "key.pem", tmp_path / "archive", tmp_path / "erased.json"
    private = Ed25519PrivateKey.generate()
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (archive / "whatif/a").mkdir(parents=True)
    store, masked, other = ArchiveStore(archive), alert(payeeId=int(PAYER)), alert(beneficiaryId=int(PAYER))
    store.commit(msgspec.structs.replace(store.latest(), version=1, files=(log(store, Table.ALERTS, masked, other),)))
    (archive / "whatif/a/result.json").write_text(f'{{"payeeId":{PAYER}}}')
    asked: list[Request] = []
    words = ("erase", "--payer", PAYER, "--archive", str(archive), "--key", str(key), "--output", str(output))
    with answering(lambda request: asked.append(request) or (200, ANSWER)) as url:
        ended = fraud(*words, env={"FRAUD_CONTROL_URL": url, "FRAUD_CONTROL_TOKEN": "token"})
    assert ended.exit_code == 0, ended.err
    erasing, kept = asked
    assert (erasing.path, erasing.headers["authorization"]) == ("/fraud/control/api/erasures", "Bearer token")
    assert erasing.body == b'{"value":"%b"}' % PAYER.encode()
    assert kept.path == "/fraud/control/api/erasures/certificates"
    assert json.loads(kept.body) == json.loads(output.read_bytes())
    assert "kept: list blocked: `fraud lists remove blocked ID`" in ended.err
    assert "kept: topic restrictions: declare a `retention`" in ended.err
    assert "kept: archive whatif/a: delete the folder" in ended.err
    kept_alerts = read_log(store, store.latest().of(Table.ALERTS)).column("value").to_pylist()
    assert kept_alerts == [other], "the control plane says which fields are compared"

    content = output.read_bytes()
    assert PAYER.encode() not in content
    found = json.loads(content)
    certificate = found["certificate"]
    assert certificate["erased"]["store alerts"] == 2
    assert (certificate["erased"]["archive transactions"], certificate["erased"]["archive alerts"]) == (0, 1)
    assert certificate["lists"] == ["blocked"]
    assert (certificate["states"], certificate["reports"]) == ([], ["whatif/a"])
    until = {each["place"]: each["until"] for each in certificate["expiring"]}
    erased_at = datetime.strptime(certificate["erasedAt"], "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    assert until["topic transactions"] == f"{erased_at + timedelta(days=7):%Y-%m-%d %H:%M:%S UTC}"
    assert until["topic rules"] is None
    assert "topic decisions" not in until

    seal = msgspec.convert(found["seal"], Seal)
    text = json.dumps(certificate, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert seal.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert seal.public_key
    check_signature(seal, None)


def test_an_erasure_needs_the_control_plane_first(tmp_path: Path) -> None:
    ended = fraud("erase", "--payer", PAYER, env={"FRAUD_CONTROL_TOKEN_FILE": str(tmp_path / "none")})
    assert (ended.exit_code, "fraud login" in ended.err) == (3, True)
