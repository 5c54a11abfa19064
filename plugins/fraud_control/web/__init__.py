"""The HTTP API of the control plane. Only this package imports FastAPI."""
