"""Creates and changes topics as declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.hooks.connections import KAFKA, connection, kafka_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class ApplyTopicsOperator(BaseOperator):
    """Creates missing topics and makes safe changes. If a change would lose data, it fails and changes nothing."""

    def __init__(self, *, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> dict[str, int]:
        from fraud_rules.configuration.project import Project
        from fraud_rules.kafka import topics
        from fraud_rules.kafka.declared import load_topics

        with airflow_errors():
            declared = load_topics(Project.find().config / "topics.yaml")
            steps = topics.apply(kafka_of(connection(self.kafka_conn_id)), declared)
        counts: dict[str, int] = {}
        for step in steps:
            self.log.info("%-9s %s %s", step.kind.done, step.topic.name, "; ".join(map(str, step.differences)))
            counts[step.kind.done] = counts.get(step.kind.done, 0) + 1
        return counts
