"""`python -m fraud_ops.control_plane`, and so `fraud control`: what operators do with the control plane's store."""

from __future__ import annotations

from fraud_ops.control_plane.command import main

if __name__ == "__main__":
    main()
