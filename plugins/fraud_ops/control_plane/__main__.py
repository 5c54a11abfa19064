"""`python -m fraud_ops.control_plane`, which `fraud control` runs: the operators' commands for the store."""

from __future__ import annotations

from fraud_ops.control_plane.command import main

if __name__ == "__main__":
    main()
