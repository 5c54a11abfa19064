"""The schema registry: its client, and the schemas that a host keeps of it."""
