"""The connection to a Kafka cluster: one value that gives each client library its settings.

The address is not secret. The credentials come from a properties file, which FRAUD_KAFKA_PROPERTIES names, or from the
environment. They are `Secrets`: no argument, log, record or output shows them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fraud_rules.errors import ConfigError
from fraud_rules.runtime.file_faults import fault_of_file
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
_Properties = Mapping[str, str]
_CHECKS_NAME: Final = "ssl.endpoint.identification.algorithm"


def _jaas(known: _Properties) -> _Properties:
    module = _JAAS[known.get("sasl.mechanism", "PLAIN")]
    user, password = (_quoted(known.get(name, "")) for name in ("sasl.username", "sasl.password"))
    return {"sasl.jaas.config": f"{module} required username={user} password={password};"}


def _unchanged(name: str) -> Callable[[_Properties], _Properties]:
    return lambda known: {name: known[name]}


@dataclass(frozen=True, slots=True)
class _Dialects:
    """The translation of one security property from librdkafka to the other clients.

    `kafka_python` is the name of the same property in kafka-python. `java` computes the settings of the Java client for
    this property, from all properties.
    """

    kafka_python: str
    java: Callable[[_Properties], _Properties]


_DIALECTS: Final[Mapping[str, _Dialects]] = MappingProxyType(
    {
        "security.protocol": _Dialects("security_protocol", _unchanged("security.protocol")),
        "sasl.mechanism": _Dialects("sasl_mechanism", _unchanged("sasl.mechanism")),
        "sasl.username": _Dialects("sasl_plain_username", _jaas),
        "sasl.password": _Dialects("sasl_plain_password", _jaas),
        "ssl.ca.location": _Dialects(
            "ssl_cafile",
            lambda known: {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": _pem(known["ssl.ca.location"]),
            },
        ),
        "ssl.certificate.location": _Dialects(
            "ssl_certfile",
            lambda known: {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _pem(known["ssl.certificate.location"]),
            },
        ),
        "ssl.key.location": _Dialects(
            "ssl_keyfile",
            lambda known: {"ssl.keystore.type": "PEM", "ssl.keystore.key": _pem(known["ssl.key.location"])},
        ),
        "ssl.key.password": _Dialects("ssl_password", _unchanged("ssl.key.password")),
        _CHECKS_NAME: _Dialects(
            "ssl_check_hostname", lambda known: {_CHECKS_NAME: ""} if known[_CHECKS_NAME] == "none" else {}
        ),
    }
)


_ALIASES: Final = MappingProxyType({"sasl.mechanisms": "sasl.mechanism"})
"""librdkafka's second names of properties. The snippets of hosted Kafka services use them."""

_NO_SECRETS: Final = Secrets()


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """The address and the security properties of a Kafka cluster.

    `bootstrap` is a list of host:port, separated by commas. `security` has the properties by their names in librdkafka.
    """

    bootstrap: str
    security: Secrets = _NO_SECRETS

    @classmethod
    def load(cls, bootstrap: str, environ: Mapping[str, str] = os.environ) -> KafkaConnection:
        """Read the security properties from the environment.

        FRAUD_KAFKA_PROPERTIES names a file. A variable for a property (FRAUD_KAFKA_SASL_PASSWORD for `sasl.password`)
        overrides the file. Raises ConfigError.
        """
        named = environ.get(PROPERTIES_VARIABLE)
        variables = {name: ENV_PREFIX + name.upper().replace(".", "_") for name in (*_DIALECTS, *_ALIASES)}
        in_file = _without_aliases(dict(_properties(Path(named))) if named else {}, str(named))
        in_environ = {name: environ[variable] for name, variable in variables.items() if variable in environ}
        properties = in_file | _without_aliases(in_environ, "the environment")
        return cls.of(bootstrap, properties, named or "the environment")

    @classmethod
    def of(cls, bootstrap: str, properties: Mapping[str, str], where: str = "the connection") -> KafkaConnection:
        """Check the properties. `where` names their source in errors. Raises ConfigError with every fault."""
        properties = _without_aliases(properties, where)
        faults = list(_faults(properties))
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return cls(bootstrap, Secrets(properties))

    def __str__(self) -> str:
        return self.bootstrap

    def confluent(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings for confluent-kafka: address, security, and the `settings` of the client."""
        return {"bootstrap.servers": self.bootstrap, **self.security.reveal(), **settings}

    def kafka_python(self) -> dict[str, Any]:
        """The settings for kafka-python."""
        known = self.security.reveal()
        settings: dict[str, Any] = {_DIALECTS[name].kafka_python: value for name, value in known.items()}
        # kafka-python has a switch here. The other clients expect the name of an algorithm.
        settings[_DIALECTS[_CHECKS_NAME].kafka_python] = known.get(_CHECKS_NAME) != "none"
        return {"bootstrap_servers": self.bootstrap.split(","), **settings}

    def spark(self) -> dict[str, str]:
        """The options for Spark's Kafka source, a Java client. Raises ConfigError if a PEM file cannot be read."""
        known = self.security.reveal()
        settings = {"bootstrap.servers": self.bootstrap}
        for name in known:
            settings |= _DIALECTS[name].java(known)
        return {f"kafka.{name}": value for name, value in settings.items()}


def _properties(path: Path) -> Iterable[tuple[str, str]]:
    """Read the `name=value` lines of a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{PROPERTIES_VARIABLE}={path} cannot be read: {fault_of_file(error)}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"{path}, line {number}: must be name=value")
        yield name.strip(), value.strip()


def _without_aliases(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """The properties under their first names. Raises ConfigError if a property has two names with different values."""
    for alias, name in _ALIASES.items():
        if alias in properties and properties.get(name, properties[alias]) != properties[alias]:
            raise ConfigError(f"{where}: {name} and {alias} are the same property, but have different values")
    return {_ALIASES.get(name, name): value for name, value in properties.items()}


def _faults(properties: Mapping[str, str]) -> Iterable[str]:
    for name in properties:
        if name not in _DIALECTS:
            yield f"{name} is unknown; the known properties are {', '.join(_DIALECTS)}"
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
        raise ConfigError(f"{path} cannot be read as PEM: {fault_of_file(error)}") from error
