"""The settings of the demo's Airflow."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import create_engine

from fraud_demo.airflow import AirflowSite
from fraud_rules.configuration.project import Project


def test_a_component_waits_for_the_writer_of_the_database(project: Project, tmp_path: Path) -> None:
    url = AirflowSite(tmp_path, project, 8080, "x", {}).environment({})["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    with create_engine(url).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 60_000
        assert (tmp_path / "airflow.db").exists()
