"""Measures the detector: broker, load and detector together on this machine, exactly-once and checkpoints on.

`python -m bench --help`. Each group of rows (`bench.rows`) has topics, a checkpoint and processes of its own and leaves
nothing behind; figures are kept as JSON in `bench/results/`, from which the tables of docs/benchmarks.md are rendered.
"""
