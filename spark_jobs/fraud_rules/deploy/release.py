"""A release: the complete configuration and code of one detector. Secrets are referenced, not included."""

from __future__ import annotations

import hashlib

import msgspec

from fraud_rules.configuration.detector_options import DEFAULTS
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ConfigError
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.yaml_file import parse_yaml

FINGERPRINT_CHARS = 16


class Release(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The code, configuration and placement of a detector. Equal releases behave equally.

    `code` is the digest of the code (see `code`). `wheel` is the path of its wheel on the agent's host, empty for the
    code that is installed beside the agent. `settings` and `schema` are the texts of detector.yaml and schema.yaml, so
    that an older release can run again after the files have changed. `tasks` is the number of tasks of a large batch,
    None for one for each core. `spark` are further settings of Spark. `kafka_properties` is the path of a file with the
    broker's SASL and TLS properties, on the agent's host. `metrics` is the address (host:port) of the detector's
    metrics, empty for no metrics.
    """

    code: str
    settings: str
    schema: str
    bootstrap: str
    wheel: str = ""
    master: str = DEFAULTS.master
    tasks: int | None = DEFAULTS.tasks
    driver_memory: str = DEFAULTS.driver_memory
    spark: dict[str, str] = {}
    kafka_properties: str = ""
    ui_port: int | None = None
    metrics: str = ""


def fingerprint(release: Release) -> str:
    """A short digest of the release, equal for equal releases."""
    text = msgspec.json.encode(release, order="sorted")
    return hashlib.sha256(text).hexdigest()[:FINGERPRINT_CHARS]


def settings_of(release: Release) -> tuple[DetectorSettings, TransactionSchema]:
    """Parse the settings and the schema of a release. Raises ConfigError with every fault of both."""
    faults: list[str] = []
    settings, schema = DetectorSettings(), None
    try:
        settings = DetectorSettings.parse(parse_yaml(release.settings, "settings") or {}, {})
    except ConfigError as error:
        faults.append(str(error))
    try:
        schema = TransactionSchema.parse(parse_yaml(release.schema, "schema"))
    except ConfigError as error:
        faults.append(str(error))
    if schema is None or faults:
        raise ConfigError("; ".join(faults))
    return settings, schema
