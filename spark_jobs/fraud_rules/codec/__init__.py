"""Between bytes and the data model: transactions and rules, exact and bounded."""
