"""The connection settings, and their translation for each client."""

from __future__ import annotations

from pathlib import Path

import pytest

from fraud_rules.errors import ConfigError
from fraud_rules.kafka.connection import KafkaConnection

SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "detector",
    "sasl.password": 'a"b\\c',
    "ssl.endpoint.identification.algorithm": "none",
}

OAUTH = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": 'a"b',
}


def test_without_properties_it_is_an_address() -> None:
    plain = KafkaConnection.load("a:1,b:2", {})
    assert plain == KafkaConnection("a:1,b:2")
    assert plain.confluent({"linger.ms": 0}) == {"bootstrap.servers": "a:1,b:2", "linger.ms": 0}
    assert plain.kafka_python() == {"bootstrap_servers": ["a:1", "b:2"], "ssl_check_hostname": True}


def test_a_file_and_the_environment_over_it(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(
        "# of the bank\nsecurity.protocol=SASL_SSL\n\nsasl.username = detector\nsasl.password=in-the-file\n"
    )
    environ = {"FRAUD_KAFKA_PROPERTIES": str(file), "FRAUD_KAFKA_SASL_PASSWORD": "over=it"}
    loaded = KafkaConnection.load("a:1", environ)
    assert loaded.security.reveal() == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "detector",
        "sasl.password": "over=it",
    }


def test_the_snippet_of_a_hosted_service_is_accepted(tmp_path: Path) -> None:
    plural = {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "detector", "sasl.password": "x"}
    kafka = KafkaConnection.of("a:1", plural | {"client.id": "python-1", "session.timeout.ms": "45000"})
    assert kafka == KafkaConnection.of("a:1", {"sasl.mechanism": "SCRAM-SHA-512"} | plural)
    assert kafka.kafka_python()["sasl_mechanism"] == "SCRAM-SHA-512"
    file = tmp_path / "kafka.properties"
    file.write_text("sasl.mechanisms=PLAIN\n")
    environ = {"FRAUD_KAFKA_PROPERTIES": str(file), "FRAUD_KAFKA_SASL_MECHANISM": "SCRAM-SHA-256"}
    assert KafkaConnection.load("a:1", environ).security.reveal() == {"sasl.mechanism": "SCRAM-SHA-256"}
    environ = {"FRAUD_KAFKA_SASL_MECHANISMS": "PLAIN"}
    assert KafkaConnection.load("a:1", environ).security.reveal() == {"sasl.mechanism": "PLAIN"}


def test_each_client_has_its_own_property_names(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"PEM of {name}")
    tls = {
        "ssl.ca.location": str(tmp_path / "ca"),
        "ssl.certificate.location": str(tmp_path / "cert"),
        "ssl.key.location": str(tmp_path / "key"),
    }
    kafka = KafkaConnection.of("a:1", SASL | tls)
    assert kafka.confluent({})["sasl.username"] == "detector"
    assert kafka.kafka_python()["sasl_plain_password"] == SASL["sasl.password"]
    assert kafka.kafka_python()["ssl_check_hostname"] is False


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config is unknown"),
        ({"security.protocol": "TLS"}, "security.protocol must be one of"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism must be one of"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url; .*client.secret"),
        ({"sasl.mechanism": "PLAIN", "sasl.oauthbearer.scope": "x"}, "scope needs sasl.mechanism=OAUTHBEARER"),
        (OAUTH | {"sasl.oauthbearer.method": "default"}, "method must be oidc"),
        (OAUTH | {"sasl.username": "x", "sasl.password": "x"}, "username is not for sasl.mechanism=OAUTHBEARER"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "sasl.mechanism must be one of"),
        ({"sasl.mechanisms": "GSSAPI"}, "sasl.mechanism must be one of"),
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-256"}, "mechanisms are the same property"),
        ({"sasl.mechanisms": "PLAIN", "sasl.mechanism": "SCRAM-SHA-256"}, "mechanisms are the same property"),
        ({"sasl.username": "x"}, "sasl.username and sasl.password must both be set"),
        ({"ssl.key.location": "x"}, "ssl.key.location and ssl.certificate.location must both be set"),
    ],
)
def test_a_wrong_property_is_named(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        KafkaConnection.of("a:1", properties)


def test_oauth_has_a_token_provider_in_kafka_python() -> None:
    more = {"sasl.oauthbearer.scope": "kafka", "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=p"}
    kafka = KafkaConnection.of("a:1", OAUTH | more)
    assert kafka.confluent({}) == {"bootstrap.servers": "a:1", "sasl.oauthbearer.method": "oidc", **OAUTH, **more}
    settings = kafka.kafka_python()
    provider = settings.pop("sasl_oauth_token_provider")
    assert provider.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "p"}
    assert settings == {
        "bootstrap_servers": ["a:1"],
        "ssl_check_hostname": True,
        "sasl_mechanism": "OAUTHBEARER",
    }


@pytest.mark.parametrize("text", [None, "no separator"])
def test_an_invalid_file_is_named(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=r"kafka\.properties"):
        KafkaConnection.load("a:1", {"FRAUD_KAFKA_PROPERTIES": str(file)})


NO_CHECK = "ssl.endpoint.identification.algorithm"


@pytest.mark.parametrize(
    ("properties", "kafka_python"),
    [
        ({"security.protocol": "SASL_SSL"}, {"security_protocol": "SASL_SSL"}),
        ({"sasl.mechanism": "PLAIN"}, {"sasl_mechanism": "PLAIN"}),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": "x"},
            {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "me", "sasl_plain_password": "x"},
        ),
        ({"ssl.ca.location": "ca"}, {"ssl_cafile": "ca"}),
        (
            {"ssl.certificate.location": "cert", "ssl.key.location": "key", "ssl.key.password": "x"},
            {"ssl_certfile": "cert", "ssl_keyfile": "key", "ssl_password": "x"},
        ),
        ({NO_CHECK: "https"}, {}),
        ({NO_CHECK: "none"}, {"ssl_check_hostname": False}),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else None,
)
def test_each_property_is_translated_for_each_client(
    properties: dict[str, str], kafka_python: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"PEM of {name}")
    kafka = KafkaConnection.of("a:1", properties)
    assert kafka.confluent({}) == {"bootstrap.servers": "a:1", **properties}
    assert kafka.kafka_python() == {"bootstrap_servers": ["a:1"], "ssl_check_hostname": True, **kafka_python}
