"""Airflow for tests without a database: a home of its own, before anything imports Airflow."""

from __future__ import annotations

import os
import tempfile

from tests.support.places import ROOT

os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(ROOT / "dags")
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(ROOT / "plugins")
os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = "sqlite:////nowhere/there-is-no-database.db"
