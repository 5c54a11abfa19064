"""Who sends a request: a ticket of Airflow's plugin, the signed header of a proxy, or a session."""
