"""The components' SCRAM users in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # stub
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from fraud_rules.errors import BrokerUnavailable, ConfigError
from fraud_rules.kafka.access import KafkaComponent
from fraud_rules.kafka.connection import KafkaConnection

_ITERATIONS: Final = 8192


def user_of(component: KafkaComponent) -> str:
    """The user of a component. Kafka's default principal is `User:` and this name."""
    return f"fraud-{component}"


def passwords_of(components: list[KafkaComponent], environ: Mapping[str, str]) -> Mapping[str, str]:
    """The password of each component's user, from FRAUD_KAFKA_<COMPONENT>_PASSWORD. Raises ConfigError."""
    variables = {each: f"FRAUD_KAFKA_{each.replace('-', '_').upper()}_PASSWORD" for each in components}
    missing = [name for name in variables.values() if not environ.get(name)]
    if missing:
        raise ConfigError(f"set {', '.join(missing)} to the password of each user, or use --only")
    return {user_of(each): environ[name] for each, name in variables.items()}


def create_users(kafka: KafkaConnection, passwords: Mapping[str, str]) -> None:
    """Create SCRAM-SHA-512 users, or replace their passwords.

    Raises BrokerUnavailable, also if the client may not change users.
    """
    wanted: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS), password.encode()
        )
        for user, password in passwords.items()
    ]
    client = AdminClient(kafka.confluent({"log_level": 0}))
    for user, done in client.alter_user_scram_credentials(wanted).items():
        try:
            done.result()
        except KafkaException as error:
            fault = error.args[0].str()
            raise BrokerUnavailable(
                f"{user} was not created at {kafka} ({fault}): use a principal that may change users"
            ) from error
