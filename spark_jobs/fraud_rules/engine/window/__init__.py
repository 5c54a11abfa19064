"""The window kernel: exact per-event sliding windows over the retained rows of a grouping key, compiled by numba.

`kernel` is the pass over new rows, `key_rows` keeps the rows of a key, `evaluation` evaluates the rules of a row,
`plan` compiles rules to arrays, and `layout` names the columns of these arrays.
"""
