"""The HTTP API of the control plane. Only this package imports Airflow's server and FastAPI."""
