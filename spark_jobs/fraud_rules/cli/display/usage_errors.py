"""The root of a command: words the errors about values of options and arguments, and sorts the commands.

Typer passes on the sentences of pydantic, which name its types.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from fraud_rules.runtime.value_faults import fault_text


class CommandGroup(TyperGroup):
    """The root of a command. It words the errors about values of all its commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the names of the commands by the alphabet. Typer lists groups behind all other commands."""
        return sorted(super().list_commands(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises typer.BadParameter with a sentence of this product."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _sentence(error)
            raise


def _sentence(error: typer.BadParameter) -> str:
    """The fault of the value. A fault that pydantic did not find keeps its sentence."""
    errors = getattr(error.__cause__, "errors", None)
    if errors is None:
        return error.message
    return fault_text(errors()[0]).removesuffix(".") + "."
