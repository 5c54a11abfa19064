"""The declared release: from the code, the files and the connections of this Airflow."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Connection

from fraud_ops.hooks.connections import kafka_of, master_of
from fraud_rules.configuration.project import Project
from fraud_rules.deploy.local import release_of
from fraud_rules.deploy.release import Release
from fraud_rules.errors import ConfigError

__all__ = ["declared_release"]

_OPTIONS = frozenset(Release.__struct_fields__) - {"code", "settings", "schema", "bootstrap", "master"}
"""The options that the extra of the Spark connection may have. Files and the Kafka connection supply the rest."""

_FORMER_TASKS = "shuffle_partitions"
"""The former name of the option `tasks`, which existing connections may have."""


def declared_release(project: Project, spark: Connection, kafka: Connection) -> Release:
    """The declared release. Raises ConfigError if an option of a connection is missing or unknown."""
    options: dict[str, Any] = dict(spark.extra_dejson)
    if _FORMER_TASKS in options:
        options.setdefault("tasks", options.pop(_FORMER_TASKS))
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown or "checkpoint" not in options:
        fault = f"has unknown options {', '.join(unknown)}" if unknown else "has no checkpoint"
        raise ConfigError(
            f"the Airflow connection {spark.conn_id} {fault}: its extra accepts {', '.join(sorted(_OPTIONS))}"
        )
    return release_of(project.config, bootstrap=kafka_of(kafka).bootstrap, master=master_of(spark), **options)
