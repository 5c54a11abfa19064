"""The commands of `fraud control` that use the control plane's HTTP API, with the rights of their user."""
