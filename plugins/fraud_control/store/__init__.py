"""The control plane's database: its tables, its migrations, and transactions that write one at a time."""
