"""The data model: transactions, rules and rule sets as frozen values, valid once built. No engine, no I/O."""
