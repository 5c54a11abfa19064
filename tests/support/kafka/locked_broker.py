"""Brokers with authentication: certificates, or SCRAM over mutual TLS with an authorizer and one user per component."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.connection import KafkaConnection
from tests.support.kafka.own_topics import OwnTopics
from tests.support.ports import free_ports

Properties = dict[str, str]

ADMIN = "admin"
MECHANISM = "SCRAM-SHA-512"
PASSWORD = "not-to-be-seen-7c1f"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_FORMATS = "kafka.tools.StorageTool"


class LockedBroker(Broker):
    """The broker of `fraud kafka broker` with authentication. `client` has the properties of the administrator.

    `users` get SCRAM credentials when the storage is formatted: their passwords by name.
    """

    client: Properties
    users: Mapping[str, str]

    @classmethod
    def make(
        cls, folder: Path, project: Project, settings: Properties, client: Properties, jvm: tuple[str, ...] = ()
    ) -> LockedBroker:
        """Create a broker whose configuration has further settings. It does not run yet."""
        root = folder / "project"
        shutil.copytree(project.config, root / "config")
        (root / "lib").symlink_to(project.jars)
        template = root / "config" / "broker.properties"
        text = template.read_text().replace("BROKER:PLAINTEXT", f"BROKER:{client['security.protocol']}")
        template.write_text(text + "".join(f"{name}={value}\n" for name, value in settings.items()))
        broker = cls(folder / "broker", *free_ports(2), Project(root), jvm)
        broker.client, broker.users = client, {}
        return broker

    @property
    def kafka(self) -> KafkaConnection:
        return KafkaConnection.of(self.bootstrap, self.client)

    def properties_of(self, user: str) -> Properties:
        """The properties of a client that logs in as a user."""
        return {**self.client, "sasl.username": user, "sasl.password": password_of(user)}

    def kafka_as(self, user: str) -> KafkaConnection:
        """The connection of a user."""
        return KafkaConnection.of(self.bootstrap, self.properties_of(user))

    def topics_as(self, user: str) -> LockedTopics:
        """The topics that a test reads and writes as a user."""
        return LockedTopics(self.bootstrap, "", TopicNames(), (), client=self.properties_of(user))

    def _java(self, main: str, *arguments: str) -> list[str]:
        scram = [f"--add-scram={MECHANISM}=[name={name},password={word}]" for name, word in self.users.items()]
        return super()._java(main, *arguments, *(scram if main == _FORMATS else ()))


def with_certificates(folder: Path) -> tuple[Properties, Properties]:
    """The properties of the broker's listener and of a client: a certificate on each side."""
    authority = trustme.CA()
    ca, key, certificate, both = (folder / f"{name}.pem" for name in ("ca", "key", "certificate", "both"))
    authority.cert_pem.write_to_path(ca)
    issued = authority.issue_cert("127.0.0.1")
    pkcs8 = load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.write_bytes(pkcs8.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    stores = {"ssl.keystore": both, "ssl.truststore": ca}
    listener = {f"{name}.location": str(path) for name, path in stores.items()}
    listener |= {f"{name}.type": "PEM" for name in stores} | {"ssl.client.auth": "required"}
    client = {"ssl.ca.location": ca, "ssl.key.location": key, "ssl.certificate.location": certificate}
    return listener, {name: str(path) for name, path in client.items()}


def authorizing_broker(folder: Path, project: Project) -> LockedBroker:
    """A broker with SCRAM over mutual TLS and `StandardAuthorizer`. Its only user is the administrator."""
    users = {ADMIN: password_of(ADMIN)}
    listener, client = with_certificates(folder)
    listener |= {
        "sasl.enabled.mechanisms": MECHANISM,
        f"{MECHANISM.lower()}.sasl.jaas.config": f'{_SCRAM} required username="{ADMIN}" password="{users[ADMIN]}";',
    }
    settings = {
        **{f"listener.name.broker.{name}": value for name, value in listener.items()},
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The controller's listener has no authentication. It is on loopback, and no client uses it.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
    }
    login = {"sasl.mechanism": MECHANISM, "sasl.username": ADMIN, "sasl.password": users[ADMIN]}
    broker = LockedBroker.make(folder, project, settings, {"security.protocol": "SASL_SSL", **login, **client})
    broker.users = users
    return broker


def password_of(user: str) -> str:
    return f"{PASSWORD}-{user}"


def write_properties(path: Path, properties: Properties) -> Path:
    """Write a file for FRAUD_KAFKA_PROPERTIES."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


@dataclass(frozen=True)
class LockedTopics(OwnTopics):
    """Topics that a test reads and writes as one user, with these properties."""

    client: Properties = field(default_factory=dict)

    @property
    def kafka(self) -> KafkaConnection:
        return KafkaConnection.of(self.bootstrap, self.client)
