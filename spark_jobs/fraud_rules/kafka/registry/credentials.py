"""The properties of the registry's client, under the names of confluent-kafka.

Those that are not secret can be in the schema file. The credentials come from a properties file, which
FRAUD_REGISTRY_PROPERTIES names, or from the environment (FRAUD_REGISTRY_BASIC_AUTH_USER_INFO for
`basic.auth.user.info`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from fraud_rules.errors import ConfigError
from fraud_rules.kafka.connection import read_properties
from fraud_rules.model.declared.record_format import AUTH_PROPERTIES, SECRET_PROPERTIES, RegistrySettings
from fraud_rules.runtime.secret import Secrets

ENV_PREFIX: Final = "FRAUD_REGISTRY_"
PROPERTIES_VARIABLE: Final = "FRAUD_REGISTRY_PROPERTIES"


def registry_properties(registry: RegistrySettings, environ: Mapping[str, str] = os.environ) -> Secrets:
    """The properties of the client: those of the settings, of the file, and of the environment, which overrides.

    Raises ConfigError for an unknown property and an unreadable file.
    """
    known = (*AUTH_PROPERTIES, *SECRET_PROPERTIES)
    in_file = read_properties(PROPERTIES_VARIABLE, environ)
    unknown = [name for name in in_file if name not in known]
    if unknown:
        where = f"{PROPERTIES_VARIABLE}={environ[PROPERTIES_VARIABLE]}"
        raise ConfigError(f"{where}: {', '.join(unknown)} must be one of {', '.join(known)}")
    variables = {name: ENV_PREFIX + name.upper().replace(".", "_") for name in known}
    in_environ = {name: environ[variable] for name, variable in variables.items() if variable in environ}
    return Secrets(dict(registry.auth) | in_file | in_environ)
