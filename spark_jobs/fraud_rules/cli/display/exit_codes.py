"""The exit codes of a command, for its help."""

from __future__ import annotations

import re

from fraud_rules.errors import FraudError, kinds_of_error

__all__ = ["exit_codes"]


def exit_codes(*roots: type[FraudError]) -> str:
    """List the exit codes with their meanings: the first sentences of the error classes of some branches of the tree.

    Without a branch, the list has the whole tree.
    """
    codes: dict[int, str] = {0: "done", 2: "wrong usage, or a file with the wrong content"}
    for root in roots or (FraudError,):
        for kind in kinds_of_error(root):
            codes.setdefault(kind.exit_code, f"{kind.__name__}: {_first_sentence(kind.__doc__ or '')}")
    codes[130] = "interrupted (Ctrl-C)"
    return "\b\nExit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in sorted(codes.items()))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) ", " ".join(text.split()), maxsplit=1)[0]
