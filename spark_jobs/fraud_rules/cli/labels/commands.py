"""`fraud labels`: sends labels of payments to the control plane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from fraud_rules.cli.display.api_answers import read_file
from fraud_rules.cli.display.output import print_json
from fraud_rules.cli.options import AsJson, Url, command_group, connect
from fraud_rules.errors import InputInvalid

app = command_group("Labels: which payments were frauds, as a chargeback or an investigation says later.")

_FORMS: Final = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}


@app.command()
def load(
    file: Annotated[Path, typer.Argument(help="CSV with a header, or JSON Lines.", show_default=False)],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Load the labels of a file. The newest label of a payment counts, whatever its source.

    The columns are transaction (or transactionId, or alertId), label (FRAUD or NOT_FRAUD), and optionally time (of the
    label, else now) and source (such as chargeback).

    \b
    Examples:
      fraud labels load chargebacks.csv
    """
    form = _FORMS.get(file.suffix.lower())
    if form is None:
        raise InputInvalid(f"{file}: the name of a file of labels must end in {', '.join(_FORMS)}")
    body = {"name": file.name, "format": form, "content": read_file(file)}
    found, _ = connect(url).change("POST", "/labels", body)
    if as_json:
        print_json(found)
        return
    print(f"saved {found['fraud']:,} fraud, {found['notFraud']:,} not fraud")
    for reason, count in found["skipped"].items():
        print(f"skipped {count:,}: {reason}")
