"""The DAGs of docker-compose.yml: all that the provider has, with their default options."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from fraud_rules_airflow import dags

for module in iter_modules(dags.__path__):
    if module.name != "options":
        import_module(f"{dags.__name__}.{module.name}").create_dag()
