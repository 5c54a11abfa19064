"""One module a version, in order. The first has no steps: `store.tables` creates the tables of an empty database."""
