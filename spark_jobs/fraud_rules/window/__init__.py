"""The window kernel: exact per-event sliding windows over a key group's retained transactions.

`layout` names the columns of the flat arrays, `plan` compiles rules to them, `arrays` holds the memory, `kernel` is the
compiled loop, `exact` its wide arithmetic, `cell` one grouping's state in one key group.
"""
