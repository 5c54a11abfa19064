"""The declared release: from the code, the files and the connections of this Airflow."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from airflow.sdk import Connection

from fraud_rules.configuration.project import Project
from fraud_rules.deploy.local import release_of
from fraud_rules.deploy.release import Release
from fraud_rules.errors import ConfigError
from fraud_rules_airflow.hooks.connections import kafka_of, master_of

_OPTIONS = frozenset(Release.__struct_fields__) - {
    "code", "settings", "schema", "bootstrap", "master", "checkpoint",
}  # fmt: skip
"""The options that the extra of the Spark connection may have. Files and the Kafka connection supply the rest."""

_SPARK_SETTINGS: Final = MappingProxyType({"queue": "spark.yarn.queue", "namespace": "spark.kubernetes.namespace"})
"""Extras of SparkSubmitHook that are settings of Spark."""

_OF_SPARK_SUBMIT: Final = frozenset({"spark-binary", "rest-scheme", "rest-port", "yarn_resourcemanager_webapp_address"})
"""Extras of SparkSubmitHook that concern only the command `spark-submit`. So they apply to the batch jobs only."""

_REFUSED: Final = MappingProxyType(
    {
        "deploy-mode": "must be client, because the agent runs the driver of the detector on its own host",
        "principal": "does not apply to the detector; set spark.kerberos.principal in the member `spark`",
        "checkpoint": "does not apply, because the checkpoint is in Kafka; remove it",
        "keytab": "does not apply to the detector; set spark.kerberos.keytab, a path, in the member `spark`",
    }
)


def declared_release(project: Project, spark: Connection, kafka: Connection) -> Release:
    """The declared release. Raises ConfigError if an option of a connection is missing, unknown or impossible."""
    options = _options(spark)
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        known = sorted(_OPTIONS | _SPARK_SETTINGS.keys())
        raise ConfigError(
            f"the Airflow connection {spark.conn_id} has unknown options {', '.join(unknown)}: its extra accepts "
            f"{', '.join(known)}"
        )
    return release_of(project.config, bootstrap=kafka_of(kafka).bootstrap, master=master_of(spark), **options)


def _options(spark: Connection) -> dict[str, Any]:
    """The options of the Spark connection. The extras of SparkSubmitHook become settings of Spark, or are left out.

    Raises ConfigError for an extra of SparkSubmitHook that the detector cannot follow.
    """
    extras = dict(spark.extra_dejson)
    submit = {
        name: value
        for name in (*_SPARK_SETTINGS, *_OF_SPARK_SUBMIT, *_REFUSED)
        if (value := extras.pop(name, None)) not in (None, "")  # Airflow's form also saves empty fields
    }
    if submit.get("deploy-mode") == "client":
        del submit["deploy-mode"]
    faults = [f"{name} {why}" for name, why in _REFUSED.items() if name in submit]
    if faults:
        raise ConfigError(f"the Airflow connection {spark.conn_id}: {'; '.join(faults)}")
    settings = {setting: str(submit[name]) for name, setting in _SPARK_SETTINGS.items() if name in submit}
    return extras | ({"spark": settings | extras.get("spark", {})} if settings else {})
