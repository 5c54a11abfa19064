"""Pages beside rules and alerts: runbooks, logs, and the reports of re-evaluations and what-ifs."""
