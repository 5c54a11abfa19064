"""The window kernel: exact per-event sliding windows over the retained rows of a grouping key, compiled by numba.

`kernel` is the pass over new rows, `key_rows` keeps the rows of a key, `plan` compiles rules to arrays, `layout` names
the columns of these arrays, and `condition` compares an aggregate with a limit.
"""
