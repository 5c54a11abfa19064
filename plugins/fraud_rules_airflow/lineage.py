"""What the batch jobs read and write, as datasets of OpenLineage in its naming of Kafka, files and S3.

Airflow's OpenLineage provider asks an operator for it after the task. Without the provider, nothing calls this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fraud_rules.configuration.settings import TopicNames

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import Dataset

    from fraud_rules.batch.archive.place import ArchivePath

_ARCHIVE: Final = "archive"
_REEVALUATE: Final = "reevaluate"
_WARM_UP: Final = "warm_up"
_RESULTS: Final = "reevaluation"


def job_lineage(script: str, topics: TopicNames, bootstrap: str, archive: ArchivePath) -> OperatorLineage[Dataset, Any]:
    """The inputs and outputs of a job, by the name of its entry script. Raises KeyError for an unknown script."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    from fraud_rules.batch.archive.manifest import Table, tables_of

    tables = tables_of(topics)
    judged = _tables(archive, (Table.TRANSACTIONS, Table.RULES, Table.ALERTS, Table.SHADOW_ALERTS, Table.DECISIONS))
    inputs, outputs = {
        _ARCHIVE: (_topics(bootstrap, tables), _tables(archive, tables.values())),
        _REEVALUATE: (judged, [*_topics(bootstrap, [topics.alert_corrections]), _folder(archive / _RESULTS)]),
        _WARM_UP: (
            [*_tables(archive, [Table.TRANSACTIONS]), *_topics(bootstrap, [topics.transactions, topics.rules])],
            _topics(bootstrap, [topics.warm_ups]),
        ),
    }[script]
    return OperatorLineage(inputs=inputs, outputs=outputs)


def _topics(bootstrap: str, topics: Iterable[str]) -> list[Dataset]:
    """A cluster is named by its first server."""
    from openlineage.client.event_v2 import Dataset

    return [Dataset(f"kafka://{bootstrap.partition(',')[0].strip()}", topic) for topic in topics]


def _tables(archive: ArchivePath, tables: Iterable[str]) -> list[Dataset]:
    return [_folder(archive / "data" / str(table)) for table in tables]


def _folder(path: ArchivePath) -> Dataset:
    from openlineage.client.event_v2 import Dataset

    place = path.as_posix()
    scheme, _, rest = place.partition("://")
    if not rest:
        return Dataset("file", place)
    bucket, _, key = rest.partition("/")
    return Dataset(f"{scheme}://{bucket}", key)
