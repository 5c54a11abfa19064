"""A whole installation on one machine: Airflow, the control plane, and their users. `make demo`, tests, benchmarks and
compose_check use it; the product does not import it.
"""
