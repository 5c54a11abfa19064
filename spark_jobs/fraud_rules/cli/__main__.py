"""`python -m fraud_rules.cli`: the `fraud` command where no script is installed, and for processes we start."""

from fraud_rules.cli import main

main()
