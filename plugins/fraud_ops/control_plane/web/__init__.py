"""The control plane's HTTP side: the only part of it that imports Airflow's server and FastAPI."""
