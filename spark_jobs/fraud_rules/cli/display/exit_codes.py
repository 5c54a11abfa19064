"""The exit codes of a command, for its help."""

from __future__ import annotations

from fraud_rules.errors import FraudError, kinds_of_error

__all__ = ["exit_codes"]


def exit_codes(root: type[FraudError] = FraudError) -> str:
    """List the exit codes with their meanings, taken from the error classes of a branch of the tree."""
    codes: dict[int, str] = {0: "done", 2: "usage: an unknown command or option"}
    for kind in kinds_of_error(root):
        codes.setdefault(kind.exit_code, f"{kind.__name__}: {(kind.__doc__ or '').strip().splitlines()[0]}")
    codes[130] = "interrupted (Ctrl-C)"
    return "\b\nExit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in sorted(codes.items()))
