"""Reads the seed files and the rule log, and writes seed rules, lists and maps."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from airflow.sdk import BaseHook

from fraud_ops.verdicts.collection_seeding import seed_collections
from fraud_ops.verdicts.seeding import SeedPlan, seed_plan
from fraud_rules.codec.rules.apply import validate_files
from fraud_rules.codec.rules.collections.files import read_seed_folder
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.rule_status import read_rules
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.value_list import CollectionKind
from fraud_rules_airflow.hooks.connections import KAFKA, connection, kafka_of


class SeedRulesHook(BaseHook):
    """Every method raises ConfigError, BrokerUnavailable, and RulesRejected for files with invalid rules."""

    def __init__(self, kafka_conn_id: str = KAFKA) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id
        self.project = Project.find()
        self.settings = DetectorSettings.load(self.project.config / "detector.yaml")
        self.schema = TransactionSchema.load(self.project.config / "schema.yaml")

    @cached_property
    def kafka(self) -> KafkaConnection:
        """The connection to the broker."""
        return kafka_of(connection(self.kafka_conn_id))

    def plan(self) -> SeedPlan:
        """The changes that the seed files need in the current rule log. Raises InputInvalid for files of lists
        or maps with faults.
        """
        limits = self.settings.limits
        validated = validate_files([self.project.config / "rules"], self.schema, limits)
        seeds = [seed for kind in CollectionKind for seed in read_seed_folder(kind, self.project.config, limits)]
        log = read_rules(self.kafka, self.schema, self.settings, settled=True).timeline
        return replace(seed_plan(validated, log.latest), collections=seed_collections(seeds, log, limits))

    def write(self, plan: SeedPlan) -> list[int]:
        """Append the plan's records and return their versions."""
        records = plan.records
        return append_records(self.kafka, self.settings.topics.rules, records) if records else []
