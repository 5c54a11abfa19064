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
from fraud_rules.runtime.file_faults import fault_of_file
from fraud_rules.runtime.secret import Secrets

PROPERTIES_VARIABLE: Final = "FRAUD_KAFKA_PROPERTIES"
ENV_PREFIX: Final = "FRAUD_KAFKA_"

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OAUTHBEARER: Final = "OAUTHBEARER"
_OAUTH_PREFIX: Final = "sasl.oauthbearer."
_ENDPOINT, _METHOD, _CLIENT_ID, _CLIENT_SECRET, _SCOPE, _EXTENSIONS = (
    _OAUTH_PREFIX + name
    for name in ("token.endpoint.url", "method", "client.id", "client.secret", "scope", "extensions")
)
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", _OAUTHBEARER)
_Properties = Mapping[str, str]
_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_CHECKS_NAME: Final = "ssl.endpoint.identification.algorithm"


def _extensions(known: _Properties) -> dict[str, str]:
    """The SASL extensions, which librdkafka reads from a list of `name=value`."""
    pairs = (each.partition("=") for each in known.get(_EXTENSIONS, "").split(",") if each)
    return {name.strip(): value.strip() for name, _, value in pairs}


_KAFKA_PYTHON: Final[Mapping[str, str]] = MappingProxyType(
    {
        "security.protocol": "security_protocol",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        **dict.fromkeys((_ENDPOINT, _METHOD, _CLIENT_ID, _CLIENT_SECRET, _SCOPE, _EXTENSIONS), ""),
        "ssl.ca.location": "ssl_cafile",
        "ssl.certificate.location": "ssl_certfile",
        "ssl.key.location": "ssl_keyfile",
        "ssl.key.password": "ssl_password",
        _CHECKS_NAME: "ssl_check_hostname",
    }
)
"""The names of the security properties in kafka-python, by their names in librdkafka. Empty for those of kafka-python's
token provider."""

_ALIASES: Final = MappingProxyType({"sasl.mechanisms": "sasl.mechanism"})
"""librdkafka's second names of properties. The snippets of hosted Kafka services use them."""

_IGNORED: Final = frozenset({"acks", "client.dns.lookup", "client.id", "session.timeout.ms"})
"""Properties of those snippets that concern no connection. The clients of this product set them, or need none."""

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
        variables = {name: ENV_PREFIX + name.upper().replace(".", "_") for name in (*_KAFKA_PYTHON, *_ALIASES)}
        in_file = _without_aliases(read_properties(PROPERTIES_VARIABLE, environ), str(named))
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
        known = self.security.reveal()
        method = {_METHOD: "oidc"} if known.get("sasl.mechanism") == _OAUTHBEARER else {}
        return {"bootstrap.servers": self.bootstrap, **known, **method, **settings}

    def kafka_python(self) -> dict[str, Any]:
        """The settings for kafka-python."""
        known = self.security.reveal()
        settings: dict[str, Any] = {_KAFKA_PYTHON[name]: value for name, value in known.items() if _KAFKA_PYTHON[name]}
        if known.get("sasl.mechanism") == _OAUTHBEARER:
            from fraud_rules.kafka.managed.client_credentials import ClientCredentials

            settings["sasl_oauth_token_provider"] = ClientCredentials(
                known[_ENDPOINT], known[_CLIENT_ID], known[_CLIENT_SECRET], known.get(_SCOPE), _extensions(known)
            )
        # kafka-python has a switch here. librdkafka expects the name of an algorithm.
        settings[_KAFKA_PYTHON[_CHECKS_NAME]] = known.get(_CHECKS_NAME) != "none"
        return {"bootstrap_servers": self.bootstrap.split(","), **settings}


def read_properties(variable: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The `name=value` lines of the file that a variable names. Empty without the variable. Raises ConfigError."""
    if not environ.get(variable):
        return {}
    path = Path(environ[variable])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{variable}={path} cannot be read: {fault_of_file(error)}") from error
    return dict(_properties(path, lines))


def _properties(path: Path, lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"{path}, line {number}: must be name=value")
        yield name.strip(), value.strip()


def _without_aliases(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """The properties of a connection, under their first names.

    Raises ConfigError if a property has two names with different values.
    """
    for alias, name in _ALIASES.items():
        if alias in properties and properties.get(name, properties[alias]) != properties[alias]:
            raise ConfigError(f"{where}: {name} and {alias} are the same property, but have different values")
    return {_ALIASES.get(name, name): value for name, value in properties.items() if name not in _IGNORED}


def _faults(properties: Mapping[str, str]) -> Iterable[str]:
    for name in properties:
        if name not in _KAFKA_PYTHON:
            yield f"{name} is unknown; the known properties are {', '.join(_KAFKA_PYTHON)}"
    if properties.get("security.protocol", _PROTOCOLS[0]) not in _PROTOCOLS:
        yield f"security.protocol must be one of {', '.join(_PROTOCOLS)}"
    if properties.get("sasl.mechanism", "PLAIN") not in _MECHANISMS:
        yield f"sasl.mechanism must be one of {', '.join(_MECHANISMS)}"
    yield from _oauth_faults(properties)
    if ("ssl.key.location" in properties) != ("ssl.certificate.location" in properties):
        yield "ssl.key.location and ssl.certificate.location must both be set, or neither"
    if ("sasl.username" in properties) != ("sasl.password" in properties):
        yield "sasl.username and sasl.password must both be set, or neither"
    yield from _file_faults(properties)


def _file_faults(properties: Mapping[str, str]) -> Iterable[str]:
    """The files that cannot be read. The clients name only the cause, or nothing."""
    for name, path in properties.items():
        if name in _FILES:
            try:
                Path(path).read_bytes()  # bundles of certificates may have comments in any encoding
            except OSError as error:
                yield f"{name}={path} cannot be read: {fault_of_file(error)}"


def _oauth_faults(properties: Mapping[str, str]) -> Iterable[str]:
    named = [name for name in properties if name.startswith(_OAUTH_PREFIX)]
    if properties.get("sasl.mechanism") != _OAUTHBEARER:
        yield from (f"{name} needs sasl.mechanism={_OAUTHBEARER}" for name in named)
        return
    yield from (
        f"sasl.mechanism={_OAUTHBEARER} needs {name}"
        for name in (_ENDPOINT, _CLIENT_ID, _CLIENT_SECRET)
        if name not in properties
    )
    if properties.get(_METHOD, "oidc") != "oidc":
        yield f"{_METHOD} must be oidc"
    if "sasl.username" in properties:
        yield f"sasl.username is not for sasl.mechanism={_OAUTHBEARER}"
