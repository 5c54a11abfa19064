"""The connection to a Kafka cluster: one value that gives each client library its settings.

The address is not secret. The credentials come from a properties file, which FRAUD_KAFKA_PROPERTIES names, or from the
environment. They are `Secrets`: no argument, log, record or output shows them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fraud_rules.errors import ConfigError
from fraud_rules.runtime.secret import Secrets

__all__ = ["PROPERTIES_VARIABLE", "KafkaConnection"]

PROPERTIES_VARIABLE: Final = "FRAUD_KAFKA_PROPERTIES"
ENV_PREFIX: Final = "FRAUD_KAFKA_"

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JAAS: Final = MappingProxyType(
    {
        "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
        "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
        "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    }
)
_KAFKA_PYTHON: Final = MappingProxyType(
    {
        "security.protocol": "security_protocol",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile",
        "ssl.certificate.location": "ssl_certfile",
        "ssl.key.location": "ssl_keyfile",
        "ssl.key.password": "ssl_password",
    }
)
_CHECKS_NAME: Final = "ssl.endpoint.identification.algorithm"
_KNOWN = (*_KAFKA_PYTHON, _CHECKS_NAME)


_NO_SECRETS: Final = Secrets()


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """`bootstrap` is a list of host:port, separated by commas. `security` are properties by librdkafka's names."""

    bootstrap: str
    security: Secrets = _NO_SECRETS

    @classmethod
    def load(cls, bootstrap: str, environ: Mapping[str, str] = os.environ) -> KafkaConnection:
        """Read the security properties from the environment.

        FRAUD_KAFKA_PROPERTIES names a file. A variable for a property (FRAUD_KAFKA_SASL_PASSWORD for `sasl.password`)
        overrides the file. Raises ConfigError.
        """
        named = environ.get(PROPERTIES_VARIABLE)
        properties = dict(_properties(Path(named))) if named else {}
        for name in _KNOWN:
            variable = ENV_PREFIX + name.upper().replace(".", "_")
            if variable in environ:
                properties[name] = environ[variable]
        return cls.of(bootstrap, properties, named or "the environment")

    @classmethod
    def of(cls, bootstrap: str, properties: Mapping[str, str], where: str = "the connection") -> KafkaConnection:
        """Check the properties. `where` names their source in errors. Raises ConfigError with every fault."""
        faults = list(_faults(properties))
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return cls(bootstrap, Secrets(properties))

    def __str__(self) -> str:
        return self.bootstrap

    def confluent(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings for confluent-kafka, with further settings."""
        return {"bootstrap.servers": self.bootstrap, **self.security.reveal(), **settings}

    def kafka_python(self) -> dict[str, Any]:
        """The settings for kafka-python."""
        known = self.security.reveal()
        settings: dict[str, Any] = {_KAFKA_PYTHON[name]: value for name, value in known.items() if name != _CHECKS_NAME}
        settings["ssl_check_hostname"] = known.get(_CHECKS_NAME) != "none"
        return {"bootstrap_servers": self.bootstrap.split(","), **settings}

    def spark(self) -> dict[str, str]:
        """The options for Spark's Kafka source, a Java client. Raises ConfigError if a PEM file cannot be read."""
        known = self.security.reveal()
        settings = {"bootstrap.servers": self.bootstrap}
        settings |= {name: known[name] for name in ("security.protocol", "sasl.mechanism") if name in known}
        if "sasl.username" in known:
            module = _JAAS[known.get("sasl.mechanism", "PLAIN")]
            user, password = (_quoted(known.get(name, "")) for name in ("sasl.username", "sasl.password"))
            settings["sasl.jaas.config"] = f"{module} required username={user} password={password};"
        if "ssl.ca.location" in known:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(known["ssl.ca.location"])}
        if "ssl.key.location" in known:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": _pem(known["ssl.key.location"]),
                "ssl.keystore.certificate.chain": _pem(known["ssl.certificate.location"]),
            }
        if "ssl.key.password" in known:
            settings["ssl.key.password"] = known["ssl.key.password"]
        if known.get(_CHECKS_NAME) == "none":
            settings[_CHECKS_NAME] = ""
        return {f"kafka.{name}": value for name, value in settings.items()}


def _properties(path: Path) -> Iterable[tuple[str, str]]:
    """Read the `name=value` lines of a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{PROPERTIES_VARIABLE}={path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"{path}, line {number}: must be name=value")
        yield name.strip(), value.strip()


def _faults(properties: Mapping[str, str]) -> Iterable[str]:
    for name in properties:
        if name not in _KNOWN:
            yield f"{name} is unknown; the known properties are {', '.join(_KNOWN)}"
    if properties.get("security.protocol", _PROTOCOLS[0]) not in _PROTOCOLS:
        yield f"security.protocol must be one of {', '.join(_PROTOCOLS)}"
    if properties.get("sasl.mechanism", "PLAIN") not in _JAAS:
        yield f"sasl.mechanism must be one of {', '.join(_JAAS)}"
    if ("ssl.key.location" in properties) != ("ssl.certificate.location" in properties):
        yield "ssl.key.location and ssl.certificate.location must both be set, or neither"
    if ("sasl.username" in properties) != ("sasl.password" in properties):
        yield "sasl.username and sasl.password must both be set, or neither"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as PEM: {error}") from error
