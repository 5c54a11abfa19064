"""`python -m fraud_rules.cli`: the `fraud` command for hosts without the script, and for our child processes."""

from fraud_rules.cli import main

main()
