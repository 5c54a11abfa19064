"""The exit codes of all errors, for the help of `fraud`."""

from __future__ import annotations

import re

from fraud_rules.errors import FraudError, kinds_of_error


def exit_codes() -> str:
    """List the exit codes of the loaded errors with their meanings: the first sentences of the classes."""
    codes: dict[int, str] = {0: "done", 2: "wrong usage, or a file with the wrong content"}
    for kind in kinds_of_error(FraudError):
        codes.setdefault(kind.exit_code, f"{kind.__name__}: {_first_sentence(kind.__doc__ or '')}")
    codes[130] = "interrupted (Ctrl-C)"
    return "\b\nExit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in sorted(codes.items()))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) ", " ".join(text.split()), maxsplit=1)[0]
