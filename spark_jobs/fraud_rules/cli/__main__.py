"""`python -m fraud_rules.cli`: the `fraud` command for hosts without the script, and for our child processes."""

from fraud_rules.cli import main

# A process of anyio's pool imports the main module of its parent.
if __name__ == "__main__":
    main()
