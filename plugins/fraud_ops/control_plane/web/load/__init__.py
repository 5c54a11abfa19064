"""Keeps Airflow's event loop free under load: threads per kind of request, rates, shared reads, short collections."""
