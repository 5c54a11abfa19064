"""Brokers with authentication: a password over TLS, or SCRAM with an authorizer and one principal per component."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fraud_rules.configuration.project import Project
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
    """The broker of `fraud kafka broker` with authentication. `client` has the properties that a client needs.

    `users` get SCRAM credentials when the storage is formatted: their passwords by name.
    """

    client: Properties
    users: Mapping[str, str]

    @classmethod
    def make(cls, folder: Path, project: Project, settings: Properties, client: Properties) -> LockedBroker:
        """Create a broker whose configuration has further settings. It does not run yet."""
        root = folder / "project"
        shutil.copytree(project.config, root / "config")
        (root / "lib").symlink_to(project.jars)
        template = root / "config" / "broker.properties"
        text = template.read_text().replace("BROKER:PLAINTEXT", f"BROKER:{client['security.protocol']}")
        template.write_text(text + "".join(f"{name}={value}\n" for name, value in settings.items()))
        broker = cls(folder / "broker", *free_ports(2), Project(root))
        broker.client, broker.users = client, {}
        return broker

    @property
    def kafka(self) -> KafkaConnection:
        return KafkaConnection.of(self.bootstrap, self.client)

    def _java(self, main: str, *arguments: str) -> list[str]:
        scram = [f"--add-scram={MECHANISM}=[name={name},password={word}]" for name, word in self.users.items()]
        return super()._java(main, *arguments, *(scram if main == _FORMATS else ()))


def authorizing_broker(folder: Path, project: Project) -> LockedBroker:
    """A broker with SCRAM and `StandardAuthorizer`. Its only user is the administrator."""
    users = {ADMIN: password_of(ADMIN)}
    settings = {
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "listener.name.broker.sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.broker.{MECHANISM.lower()}.sasl.jaas.config": (
            f'{_SCRAM} required username="{ADMIN}" password="{users[ADMIN]}";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The controller's listener has no authentication. It is on loopback, and no client uses it.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
    }
    broker = LockedBroker.make(folder, project, settings, properties_of(ADMIN))
    broker.users = users
    return broker


def password_of(user: str) -> str:
    return f"{PASSWORD}-{user}"


def properties_of(user: str) -> Properties:
    """The properties of a client that logs in as a user."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password_of(user),
    }


def write_properties(path: Path, properties: Properties) -> Path:
    """Write a file for FRAUD_KAFKA_PROPERTIES."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


@dataclass(frozen=True)
class LockedTopics(OwnTopics):
    """Topics that a test reads and writes as one user."""

    user: str = ADMIN

    @property
    def kafka(self) -> KafkaConnection:
        return KafkaConnection.of(self.bootstrap, properties_of(self.user))
