"""`fraud prove`, `fraud verify` and `fraud why`: proofs of alerts, and answers about payments without one."""
