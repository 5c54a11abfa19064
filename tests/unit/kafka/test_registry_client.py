"""The client of the registry against a server with the answers of a registry, and with none of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.codec.formats.schemas import NamedText, RegisteredSchema
from fraud_rules.errors import ConfigError, RegistryUnavailable
from fraud_rules.kafka.registry import folder as folder_module
from fraud_rules.kafka.registry.client import RegistryClient
from fraud_rules.kafka.registry.credentials import registry_properties
from fraud_rules.kafka.registry.folder import SchemaFolder
from fraud_rules.model.declared.record_format import RegistrySettings
from fraud_rules.runtime.secret import Secrets
from tests.support.receivers.answering import Answer, Request, answering

SCHEMA = RegisteredSchema("AVRO", '"string"')
NOT_FOUND = (404, {"error_code": 40403, "message": "Schema not found"})
GUID = "89791762-2336-4186-9674-299b90a802e2"


class Server:
    """A server with an answer for each path: status and JSON. A path without one gets Confluent's unknown schema."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.headers: list[str | None] = []

    def answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        self.asked.append(path)
        self.headers.append(request.headers.get("authorization"))
        return self.answers.get(path, NOT_FOUND)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    with answering(server.answer) as server.url:
        yield server


class Pauses:
    """A clock's `sleep` that records the pauses, and that may change the world before it returns."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.seconds: list[float] = []
        self._then = then

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._then()


def client(server: Server, folder: Path, pauses: Pauses | None = None, **secrets: str) -> RegistryClient:
    return RegistryClient(server.url, Secrets(secrets), SchemaFolder(folder), limit_s=0.2, sleep=pauses or Pauses())


def answer(kind: str | None, text: str, **further: Any) -> tuple[int, Any]:
    return 200, {"schema": text, **({"schemaType": kind} if kind else {}), **further}


def test_a_schema_comes_with_its_references_each_after_its_own(server: Server, tmp_path: Path) -> None:
    def refers(name: str) -> dict[str, Any]:
        return {"references": [{"name": name, "subject": f"s-{name}", "version": 1}]}

    server.answers = {
        "/schemas/ids/7": answer(None, SCHEMA.text),
        "/schemas/ids/8": answer("PROTOBUF", "top", **refers("a.proto")),
        "/subjects/s-a.proto/versions/1": answer("PROTOBUF", "a", id=3, version=1, subject="s", **refers("b.proto")),
        "/subjects/s-b.proto/versions/1": answer("PROTOBUF", "b", id=4, version=1, subject="s"),
        f"/schemas/guids/{GUID}": answer("JSON", "{}"),
    }
    references = (NamedText("b.proto", "b"), NamedText("a.proto", "a"))
    assert client(server, tmp_path).schemas([7, 8, GUID]) == {
        7: SCHEMA, 8: RegisteredSchema("PROTOBUF", "top", references), GUID: RegisteredSchema("JSON", "{}"),
    }  # fmt: skip


def test_an_unknown_schema_is_confirmed_once_and_asked_again_in_each_batch(server: Server, tmp_path: Path) -> None:
    pauses = Pauses()
    registry = client(server, tmp_path, pauses)
    assert registry.schemas([8, 9]) == {8: None, 9: None}
    assert (pauses.seconds, sorted(server.asked)) == ([2.0], [*2 * ["/schemas/ids/8"], *2 * ["/schemas/ids/9"]])
    assert registry.schemas([8]) == {8: None}
    assert (pauses.seconds, server.asked[4:]) == ([2.0], ["/schemas/ids/8"])
    server.answers = {"/schemas/ids/8": (503, b"")}
    with pytest.raises(RegistryUnavailable):
        registry.schemas([8])


def test_a_schema_that_a_follower_learns_late_is_found(server: Server, tmp_path: Path) -> None:
    pauses = Pauses(lambda: server.answers.update({"/schemas/ids/8": answer(None, SCHEMA.text)}))
    assert client(server, tmp_path, pauses).schemas([8]) == {8: SCHEMA}


def test_an_id_that_no_registry_has_is_unknown_without_a_question(server: Server, tmp_path: Path) -> None:
    assert client(server, tmp_path).schemas([2**32 - 1]) == {2**32 - 1: None}
    assert server.asked == []


def test_a_registry_that_finds_no_schema_by_its_guid_knows_none(server: Server, tmp_path: Path) -> None:
    """Any record whose first byte is 1 asks for a GUID."""
    server.answers = {f"/schemas/guids/{GUID}": (404, b"")}
    assert client(server, tmp_path).schemas([GUID]) == {GUID: None}
    server.answers |= {f"/schemas/ids/{2**31 - 1}": (404, b"")}
    with pytest.raises(RegistryUnavailable, match="correct its address"):
        client(server, tmp_path).schemas([GUID])
    server.answers |= {f"/schemas/ids/{2**31 - 1}": (503, b"")}
    with pytest.raises(RegistryUnavailable, match="start the registry"):
        client(server, tmp_path).schemas([GUID])


NO_ANSWERS = [(500, {"error_code": 50001}), (503, b"down"), (429, b""), (200, b"<html>"), (200, [])]


@pytest.mark.parametrize("status", NO_ANSWERS, ids=str)
def test_a_registry_without_an_answer_is_asked_until_the_limit(
    server: Server, tmp_path: Path, status: tuple[int, Any]
) -> None:
    server.answers = {"/schemas/ids/8": status}
    pauses = Pauses(lambda: time.sleep(0.05))
    with pytest.raises(RegistryUnavailable, match=rf"{server.url}.* 0\.2 s, and this host has no copy of schema 8"):
        client(server, tmp_path, pauses).schemas([8])
    assert len(server.asked) > 2
    assert set(pauses.seconds) == {1.0}


def test_a_registry_that_is_back_within_the_limit_is_used(server: Server, tmp_path: Path) -> None:
    server.answers = {"/schemas/ids/8": (503, b"")}
    pauses = Pauses(lambda: server.answers.update({"/schemas/ids/8": answer(None, SCHEMA.text)}))
    assert client(server, tmp_path, pauses).schemas([8]) == {8: SCHEMA}


@pytest.mark.parametrize(
    "status", [(401, {"error_code": 40101}), (403, b""), (404, b""), (404, {"error_code": 404})], ids=str
)
def test_a_wrong_address_or_credential_is_no_unknown_schema(
    server: Server, tmp_path: Path, status: tuple[int, Any]
) -> None:
    server.answers = {"/schemas/ids/8": status}
    with pytest.raises(RegistryUnavailable, match="correct its address in the schema file, or the credentials"):
        client(server, tmp_path).schemas([8])
    assert len(server.asked) == 1


def test_a_host_goes_on_with_the_schemas_that_it_has_seen(server: Server, tmp_path: Path) -> None:
    server.answers = {"/schemas/ids/8": answer(None, SCHEMA.text)}
    client(server, tmp_path).schemas([8])
    for status in ((503, b""), NOT_FOUND):
        server.answers["/schemas/ids/8"] = status
        assert client(server, tmp_path).schemas([8]) == {8: SCHEMA}
    server.answers["/schemas/ids/8"] = answer(None, '"long"')
    assert client(server, tmp_path).schemas([8])[8].text == '"long"', "the registry decides while it answers"


def test_a_damaged_copy_is_missing_and_the_folder_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_FILES", 3)
    folder = SchemaFolder(tmp_path / "schemas")
    for key in range(5):
        folder.write(key, SCHEMA)
    assert len(list((tmp_path / "schemas").iterdir())) == 3
    assert (folder.read(0), folder.read(4)) == (None, SCHEMA)
    (tmp_path / "schemas" / "4.json").write_bytes(b'{"kind":')
    assert folder.read(4) is None
    (tmp_path / "file").touch()
    SchemaFolder(tmp_path / "file").write(1, SCHEMA)  # logs a warning


def test_each_registry_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAUD_CACHE_DIR", str(tmp_path))
    first = SchemaFolder.of_registry(RegistrySettings("http://a"))
    first.write(1, SCHEMA)
    assert SchemaFolder.of_registry(RegistrySettings("http://a")).read(1) == SCHEMA
    assert SchemaFolder.of_registry(RegistrySettings("http://b")).read(1) is None


def test_the_credentials_reach_the_registry(server: Server, tmp_path: Path) -> None:
    server.answers = {"/schemas/ids/8": answer(None, SCHEMA.text)}
    client(server, tmp_path, **{"basic.auth.user.info": "me:secret"}).schemas([8])
    assert server.headers == ["Basic bWU6c2VjcmV0"]


def test_the_environment_overrides_the_file_and_the_file_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "registry.properties"
    path.write_text("# comment\nbasic.auth.user.info=me:from file\nssl.ca.location=/file.pem\n", encoding="utf-8")
    settings = RegistrySettings("http://a", (("ssl.ca.location", "/yaml.pem"), ("ssl.key.location", "/key.pem")))
    environ = {"FRAUD_REGISTRY_PROPERTIES": str(path), "FRAUD_REGISTRY_BASIC_AUTH_USER_INFO": "me:from environment"}
    properties = registry_properties(settings, environ)
    assert properties.reveal() == {
        "basic.auth.user.info": "me:from environment", "ssl.ca.location": "/file.pem", "ssl.key.location": "/key.pem",
    }  # fmt: skip
    assert "from environment" not in repr(properties)


def test_properties_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "registry.properties"
    with pytest.raises(ConfigError, match=r"FRAUD_REGISTRY_PROPERTIES=.* cannot be read"):
        registry_properties(RegistrySettings("http://a"), {"FRAUD_REGISTRY_PROPERTIES": str(path)})
    path.write_text("timeout=5", encoding="utf-8")
    with pytest.raises(ConfigError, match="timeout must be one of"):
        registry_properties(RegistrySettings("http://a"), {"FRAUD_REGISTRY_PROPERTIES": str(path)})
    wrong = RegistryClient("http://a", Secrets({"ssl.ca.location": "/absent.pem"}), SchemaFolder(tmp_path))
    with pytest.raises(ConfigError, match=r"registry http://a: .*No such file"):
        wrong.schemas([1])
