"""The control plane's values and rules without I/O: lifecycle, roles, rule input, snoozes, errors."""
