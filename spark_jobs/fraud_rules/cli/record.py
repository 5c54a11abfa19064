"""`fraud record`: writes a live run to a file that `fraud replay` recomputes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import Kafka


def record(
    kafka: Kafka,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.", show_default="stdout")] = None,
) -> None:
    """Write the detector's input as a recording.

    A recording holds the transactions and the rule log from the start of the history to the last batch, and the
    offsets and pins of each batch. `fraud replay` of the file gives the alerts that the detector published.

    \b
    Examples:
      fraud record --output run.json && fraud replay run.json
      fraud record | fraud replay - | jq '.alerts | length'
    """
    from fraud_rules.errors import InputInvalid
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.logs.recorder import record_run

    require_broker(kafka)
    recording = record_run(kafka, load_context().settings)
    if output is None:
        sys.stdout.buffer.writelines(recording.lines())
        return
    try:
        recording.write(output)
    except OSError as error:
        raise InputInvalid(f"{output} cannot be written: {error.strerror}") from error
    print(
        f"{len(recording.transactions)} transactions, {len(recording.rules)} rule records and "
        f"{len(recording.batches)} batches written to {output}"
    )
