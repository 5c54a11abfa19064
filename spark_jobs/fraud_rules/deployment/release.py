"""A release: everything that makes one detector run as it does, but for secrets, which travel by reference."""

from __future__ import annotations

import hashlib

import msgspec

from fraud_rules.errors import ConfigError
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.yaml_file import parse_yaml

__all__ = ["Release", "fingerprint", "settings_of"]

FINGERPRINT_CHARS = 16


class Release(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What to run and where. Two equal releases do the same.

    `code` is the digest of the code (see `code`), `wheel` where the agent finds a wheel with it, empty for the code
    that is installed beside the agent. `settings` and `schema` are the texts of detector.yaml and schema.yaml, so that
    an older release can be run again when the files have changed. `spark` are further settings of Spark.
    `kafka_properties` names a file with the broker's SASL and TLS properties, on the agent's host. `metrics` is where
    the detector serves them (host:port), empty for nowhere.
    """

    code: str
    settings: str
    schema: str
    checkpoint: str
    bootstrap: str
    wheel: str = ""
    master: str = "local[2,4]"
    shuffle_partitions: int = 2
    driver_memory: str = "1536m"
    spark: dict[str, str] = {}
    kafka_properties: str = ""
    ui_port: int | None = None
    metrics: str = ""


def fingerprint(release: Release) -> str:
    """A digest of the release: equal for equal ones, and short enough to be read out."""
    text = msgspec.json.encode(release, order="sorted")
    return hashlib.sha256(text).hexdigest()[:FINGERPRINT_CHARS]


def settings_of(release: Release) -> tuple[DetectorSettings, TransactionSchema]:
    """The release's settings and schema, checked. Raises ConfigError with everything wrong in either."""
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
