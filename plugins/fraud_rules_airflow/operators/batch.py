"""The batch jobs as tasks: archive, re-evaluation, what-if. A failed task has the name of the job's error."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from fraud_rules.configuration.project import Project
from fraud_rules.errors import InputInvalid
from fraud_rules.model.day import Day
from fraud_rules_airflow.airflow_ui.links import Report, Runbook, publish_runbook, report_address
from fraud_rules_airflow.archive_place import archive_store
from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.hooks.connections import KAFKA, SPARK, connection, kafka_of, master_of

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Connection, Context

    from fraud_rules.batch.reevaluation.report import DayResult
    from fraud_rules.kafka.connection import KafkaConnection

_EXIT = re.compile(r"Error code is: (\d+)")
_SAID = re.compile(r"\w+: (\w+): (.+)")
_WORTH_A_RETRY = (
    "BrokerUnavailable",
    "TransactionOpen",
    "ArchiveFailed",
    "ReevaluationFailed",
    "WarmUpFailed",
    "ArchiveBusy",
    "DayBusy",
    "Fenced",
)


class SparkJobOperator(SparkSubmitOperator):
    """Runs an entry script of the wheel through the Spark connection. The script's exit code gives the error's name.

    A driver on this host gets the Kafka credentials from its environment. A driver on another host reads the file that
    the Spark connection names as `kafka_properties`.
    """

    template_fields: Sequence[str] = ("arguments",)
    operator_extra_links = (Report(), Runbook())

    def __init__(
        self,
        *,
        script: str,
        arguments: Sequence[str] = (),
        kafka_conn_id: str = KAFKA,
        spark_conn_id: str = SPARK,
        **kwargs: Any,
    ) -> None:
        super().__init__(application="", conn_id=spark_conn_id, name=f"fraud-{script}", **kwargs)
        self.script = script
        self.arguments = list(arguments)
        self.kafka_conn_id = kafka_conn_id
        self.spark_conn_id = spark_conn_id

    def execute(self, context: Context) -> None:
        """Run the script. Fails without a retry if a retry cannot help, and skips a day without data, or with
        erased payments."""
        with airflow_errors(context):
            spark = connection(
                self.spark_conn_id
            )  # without this, the hook only logs a missing connection, and uses YARN
            master, kafka = master_of(spark), kafka_of(connection(self.kafka_conn_id))
            self._prepare(spark, master, kafka)
        try:
            super().execute(context)
        except AirflowException as error:
            name, mapped = _by_name(error)
            publish_runbook(context, name)
            raise mapped from error

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any]:
        """What the job has read and written. Airflow's OpenLineage provider asks for it, if it is installed."""
        from fraud_rules.configuration.settings import DetectorSettings
        from fraud_rules_airflow.lineage import job_lineage

        topics = DetectorSettings.load(Project.find().config / "detector.yaml").topics
        kafka = kafka_of(connection(self.kafka_conn_id))
        return job_lineage(self.script, topics, kafka.bootstrap, archive_store().root)

    def _prepare(self, spark: Connection, master: str, kafka: KafkaConnection) -> None:
        found = importlib.util.find_spec(self.script)
        assert found is not None, "the entry script is part of the wheel"
        project = Project.find()
        self.application = str(found.origin)
        self.application_args = [*self._places(kafka, master), *self.arguments]
        self.env_vars = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYSPARK_PYTHON": sys.executable,
            "FRAUD_HOME": str(project.root),
        }
        if master.startswith(("local", "spark://")):
            for name, value in kafka.security.reveal().items():
                self.env_vars["FRAUD_KAFKA_" + name.upper().replace(".", "_")] = value
        elif properties := spark.extra_dejson.get("kafka_properties"):
            self.env_vars["FRAUD_KAFKA_PROPERTIES"] = str(properties)

    def _places(self, kafka: KafkaConnection, master: str) -> list[str]:
        """The arguments that say where the script reads and writes."""
        return ["--bootstrap", kafka.bootstrap, "--archive", str(archive_store().root), "--master", master]


class ArchiveOperator(SparkJobOperator):
    """Copies the new records of the topics to the archive."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(script="archive", **kwargs)

    def execute(self, context: Context) -> None:
        """Run the archive job and push the state of the archive as XCom `standing`."""
        super().execute(context)

        with airflow_errors(context):
            manifest = archive_store().latest()
        standing = {
            "version": manifest.version,
            "transactions": manifest.transactions,
            "refused": manifest.rejected,
            "unreadable": manifest.unreadable,
            "files": len(manifest.files),
            "completeUntilMs": manifest.complete_until_ms,
        }
        context["ti"].xcom_push(key="standing", value=standing)
        self.log.info("state of the archive: %s", json.dumps(standing))


class ReevaluateOperator(SparkJobOperator):
    """Re-evaluates a day. The result is in the log, in XCom `summary` and behind the link *Report*."""

    template_fields: Sequence[str] = ("day", "report_only")

    def __init__(self, *, day: str, report_only: str = "", **kwargs: Any) -> None:
        super().__init__(script="reevaluate", **kwargs)
        self.day = day
        self.report_only = report_only

    def execute(self, context: Context) -> None:
        """Run the re-evaluation and publish its result."""
        with airflow_errors(context):
            day = Day.parse(self.day)
        only = ["--report-only"] if self.report_only in ("True", "true") else []
        self.arguments = ["--day", str(day), *only]
        super().execute(context)
        from fraud_rules.batch.reevaluation.daystore import DayStore

        with airflow_errors(context):
            result = DayStore(archive_store()).result(day)
        assert result is not None, "a successful job has saved its result"
        context["ti"].xcom_push(key=Report().xcom_key, value=report_address("nights", str(day)))
        summary = _summary(result)
        context["ti"].xcom_push(key="summary", value=summary)
        self.log.info("%s", json.dumps(summary, indent=1))
        for rule in result.rules:
            self.log.info(
                "rule %s %s: +%d -%d of %d", rule.rule_id, rule.name, rule.added, rule.retracted, rule.published
            )


class WarmUpOperator(SparkJobOperator):
    """Executes the open requests for warm-ups. Skips the task, without Spark, if there is none."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(script="warm_up", **kwargs)

    def on_kill(self) -> None:
        """Kill the job with its JVM, which are in another session than this task. The workers end with the JVM."""
        started = None if self._hook is None else self._hook._submit_sp
        if started is not None and started.poll() is None:
            from fraud_rules.runtime.process import kill_session

            kill_session(started)
        super().on_kill()

    def _get_hook(self) -> SparkSubmitHook:
        """The hook, which starts the job in a session of its own: so the job can yield the cores to a detector."""
        hook = super()._get_hook()
        hook.submit = partial(hook.submit, start_new_session=True)  # type: ignore[method-assign]
        return hook

    def execute(self, context: Context) -> None:
        """Run the job if there is an open request."""
        from fraud_rules.configuration.settings import DetectorSettings
        from fraud_rules.logs.open_warm_ups import open_requests

        with airflow_errors(context):
            settings = DetectorSettings.load(Project.find().config / "detector.yaml")
            waiting = open_requests(kafka_of(connection(self.kafka_conn_id)), settings)
        if not waiting:
            raise AirflowSkipException("no rule requests a warm-up")
        self.log.info("rule records that request a warm-up: %s", ", ".join(map(str, sorted(waiting))))
        super().execute(context)


class WhatIfOperator(BaseOperator):
    """Evaluates a rule over past days, with `fraud whatif` in a process group of its own.

    The what-if uses several processes. If the task started them itself, each would first load Airflow.
    """

    template_fields: Sequence[str] = ("rule", "days", "until", "limits")
    operator_extra_links = (Report(), Runbook())

    def __init__(self, *, rule: str, days: str, until: str = "", limits: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rule = rule
        self.days = days
        self.until = until
        self.limits = limits
        self._child: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the what-if and return its summary."""
        from fraud_rules.batch.whatif.place import report_name
        from fraud_rules.errors import error_name

        with airflow_errors(context):
            command, home = self._command(), str(Project.find().root)
        environ = {**os.environ, "FRAUD_HOME": home}
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, env=environ, start_new_session=True
        )
        try:
            output, complaint = self._child.communicate()
        finally:
            self.on_kill()
        if self._child.returncode != 0:
            name = error_name(self._child.returncode) or f"exit code {self._child.returncode}"
            publish_runbook(context, name)
            raise AirflowFailException(f"{name}: {complaint.strip().removeprefix('fraud: ')[-2_000:]}")
        result = json.loads(output)
        page = report_name(result["evaluatedMs"], result["rule"].get("ruleId"))
        context["ti"].xcom_push(key=Report().xcom_key, value=report_address("whatif", page))
        summary = {name: result[name] for name in ("days", "transactions", "fires", "suppressed", "keys", "seconds")}
        self.log.info("%s", json.dumps(summary, indent=1))
        return summary

    def on_kill(self) -> None:
        """Kill the remaining processes."""
        if self._child is not None:
            from fraud_rules.runtime.process import kill_session

            kill_session(self._child)

    def _command(self) -> list[str]:
        rule = self._rule()
        options = {"days": self.days, "until": self.until, "limits": self.limits, "archive": str(archive_store().root)}
        arguments = [f"--{name}={value}" for name, value in options.items() if value]
        return [sys.executable, "-m", "fraud_rules.cli", "whatif", "--json", *arguments, "--", rule]

    def _rule(self) -> str:
        """The rule's JSON, or its id. The command also reads files, but a user of the DAG must not read this host's."""
        rule = self.rule.strip()
        if not (rule.startswith("{") or (rule.isascii() and rule.isdigit())):
            raise InputInvalid("the rule must be the JSON of a rule or the id of a rule")
        return rule


def _summary(result: DayResult) -> dict[str, Any]:
    return {
        "day": result.day,
        "withheld": result.withheld,
        "transactions": result.transactions,
        "outOfOrder": result.out_of_order,
        "published": result.published,
        "confirmed": result.confirmed,
        "added": result.added,
        "retracted": result.retracted,
        "newCorrections": result.new_corrections,
        "seconds": result.seconds,
    }


def _by_name(error: AirflowException) -> tuple[str, AirflowException]:
    """The name of the script's error, from its exit code, and the exception that ends the task."""
    from fraud_rules.errors import FraudError, error_name

    found = _EXIT.search(str(error))
    name = error_name(int(found[1])) if found else None
    if name is None or name == FraudError.__name__:  # the script ended with an unknown error
        return "", error
    said = next((text for kind, text in _SAID.findall(str(error)) if kind == name), "see the log above")
    if name in ("DayEmpty", "DayErased"):
        return name, AirflowSkipException(f"{name}: {said}")
    kind = AirflowException if name in _WORTH_A_RETRY else AirflowFailException
    return name, kind(f"{name}: {said}")
