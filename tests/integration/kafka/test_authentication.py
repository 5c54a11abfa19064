"""Brokers with OAUTHBEARER, with PLAIN and with certificates alone: all three clients connect.

`test_access_control` has SCRAM over mutual TLS, from which PLAIN differs by one word for each client, so it is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.declared import Topic
from fraud_rules.kafka.record_writer import append_records
from tests.support.kafka.identity_provider import AUDIENCE, CLIENT, SECRET, IdentityProvider, identity_provider
from tests.support.kafka.locked_broker import LockedBroker, Properties, with_certificates

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LOG = Topic("log", 1)
OAUTH = "org.apache.kafka.common.security.oauthbearer"


def oauth_broker(folder: Path, project: Project, provider: IdentityProvider) -> LockedBroker:
    """A broker that accepts the tokens of an identity provider."""
    listener = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": f"{OAUTH}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    settings = {f"listener.name.broker.{name}": value for name, value in listener.items()}
    settings["sasl.mechanism.inter.broker.protocol"] = "OAUTHBEARER"
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.url}/keys"
    return LockedBroker.make(folder, project, settings, oauth_client(provider), (allowed,))


def oauth_client(provider: IdentityProvider, secret: str = SECRET) -> Properties:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
    }


def tls_broker(folder: Path, project: Project) -> LockedBroker:
    """A broker that knows its clients by their certificates alone."""
    listener, client = with_certificates(folder)
    settings = {f"listener.name.broker.{name}": value for name, value in listener.items()}
    return LockedBroker.make(folder, project, settings, {"security.protocol": "SSL", **client})


def password_broker(folder: Path, project: Project) -> LockedBroker:
    """A broker that knows its clients by PLAIN over TLS."""
    listener, certificates = with_certificates(folder)
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    listener["sasl.enabled.mechanisms"] = "PLAIN"
    listener["plain.sasl.jaas.config"] = f'{plain} required username="a" password="b" user_a="b";'
    settings = {f"listener.name.broker.{name}": value for name, value in listener.items()}
    settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
    return LockedBroker.make(folder, project, settings, {"security.protocol": "SASL_SSL", **login, **certificates})


@pytest.fixture(params=["OAUTHBEARER", "certificates", pytest.param("PLAIN", marks=pytest.mark.long)])
def broker(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Iterator[LockedBroker]:
    with identity_provider() as provider:
        if request.param == "OAUTHBEARER":
            broker = oauth_broker(tmp_path, project, provider)
        else:
            broker = (tls_broker if request.param == "certificates" else password_broker)(tmp_path, project)
        broker.start()
        yield broker
        broker.kill()


def test_each_client_connects(broker: LockedBroker, project: Project) -> None:
    """kafka-python creates a topic, and librdkafka writes and reads it."""
    kafka = broker.kafka
    topic_admin.apply(kafka, [LOG])
    append_records(kafka, LOG.name, [(b"", b"one"), (b"", b"two")])
    assert [record.value for record in read_topic(kafka, LOG.name)[0]] == [b"one", b"two"]


def test_an_identity_provider_that_refuses_the_client_is_named() -> None:
    with identity_provider() as provider:
        kafka = KafkaConnection.of("127.0.0.1:1", oauth_client(provider, "wrong"))
        with pytest.raises(BrokerUnavailable, match=f"identity provider {provider.url}/token issues no token: .*401"):
            topic_admin.apply(kafka, [LOG])
        assert provider.issued == 0
