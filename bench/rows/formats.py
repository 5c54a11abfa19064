"""Throughput over a backlog of the same transactions in other formats, as a share of that of flat JSON."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from bench.figures import Figure, Rows, Scale, at_least
from bench.inputs.loads import UNIFORM_500K, WARM_100K, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import RULES_1
from bench.inputs.shapes import SHAPES, LoadShape
from bench.lab import Lab
from bench.rows.backlog import APART_MS, throughput

__all__ = ["ROWS"]


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    found = {shape.name: _throughput(lab, scale, shape) for shape in SHAPES}
    shares = {f"{name}_share": 100 * value / found["flat"] for name, value in found.items() if name != "flat"}
    return found | shares


def _throughput(lab: Lab, scale: Scale, shape: LoadShape) -> float:
    with lab.session(f"format-{shape.name}") as session:
        folder = session.files.with_suffix(".schema")
        folder.mkdir(parents=True)
        for name, content in shape.files.items():
            (folder / name).write_bytes(content)
        (folder / "schema.yaml").write_text(yaml.safe_dump(shape.schema()))
        session.start(RULES_1, "--schema", str(folder / "schema.yaml"))
        backlog = Backlog(session.bootstrap, session.names.transactions)
        warm = WARM_100K.first(scale.of(WARM_100K.count))
        load = UNIFORM_500K.first(scale.of(UNIFORM_500K.count)).after(warm, APART_MS)
        backlog.hold(shape.of(transactions(warm)))
        backlog.release()
        session.await_evaluated(warm.count)
        backlog.hold(shape.of(transactions(load)))
        started_ms = backlog.release()
        session.await_evaluated(warm.count + load.count)
        return throughput(session, load, started_ms)


ROWS = (
    Rows(
        "backlog_formats",
        "Backlog, `rules1`, other formats",
        "As above with `uniform_500k`, each format with a detector of its own. Nested: JSON of 2 KB with 30 members "
        "that the schema does not declare. Avro and Protobuf: the fields of flat JSON.",
        (
            Figure("flat", "flat JSON", "tx/s"),
            Figure("nested", "nested JSON", "tx/s"),
            Figure("avro", "Avro", "tx/s"),
            Figure("protobuf", "Protobuf", "tx/s"),
            Figure("nested_share", "nested JSON in % of flat JSON", "%", at_least(60)),
            Figure("avro_share", "Avro in % of flat JSON", "%", at_least(60)),
            Figure("protobuf_share", "Protobuf in % of flat JSON", "%", at_least(60)),
        ),
        _measure,
    ),
)
