"""The agent: the process beside Spark that executes recorded intents. It decides and restarts nothing by itself."""
