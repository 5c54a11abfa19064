"""Sends alarms and notifications to receivers. Airflow's tasks and the control plane use it; it imports neither."""
