"""`fraud replay`: evaluates a recording without any server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.cli.configured import load_context

File = Annotated[Path, typer.Argument(help="The recording; - reads standard input.", show_default=False)]
Schema = Annotated[
    Path | None, typer.Option("--schema", help="The transaction schema.", show_default="config/schema.yaml")
]


def replay(file: File, schema: Schema = None) -> None:
    """Evaluate a recording with the detector's engine.

    A recording is {"keyGroups": 1, "steps": [{"at": ms, "rule": {...}}, {"at": ms, "tx": {...}}, ...]}, in append
    order. With "batches", the replay uses the recorded offsets and pins, so it recomputes a live run exactly; `fraud
    record` writes such a file. The command prints one JSON object with the alerts, the decisions, the ids of late,
    quarantined and ignored transactions, and the rejected rules. The exit code is 2 if the file is not a recording.

    \b
    Examples:
      fraud replay recording.json
      fraud record | fraud replay - | jq '.alerts | length'
    """
    from fraud_rules.model.schema import TransactionSchema
    from fraud_rules.replay.recording import Recording
    from fraud_rules.replay.replay import encode_exactly, replay_recording

    context = load_context()
    recording = Recording.read(_content(file), "standard input" if str(file) == "-" else str(file))
    fields = context.schema if schema is None else TransactionSchema.load(schema)
    answer = replay_recording(recording, fields, context.settings)
    sys.stdout.buffer.write(encode_exactly(answer) + b"\n")


def _content(file: Path) -> bytes:
    from fraud_rules.errors import InputInvalid

    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise InputInvalid(f"{file} cannot be read: {error.strerror}") from error
