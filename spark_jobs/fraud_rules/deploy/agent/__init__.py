"""The agent: the process beside Spark that executes recorded intents. Supervisors decide; the agent only executes."""
