"""`python -m fraud_control`, which `fraud control` runs: the operators' commands for the store."""

from __future__ import annotations

from fraud_control.command import main

if __name__ == "__main__":
    main()
