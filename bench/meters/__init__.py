"""The meters: CPU time, pauses, alert latency, recovery after a kill, and the reading of a rule log."""
