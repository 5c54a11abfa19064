"""The fault of a file that cannot be read or written, for messages that name the file themselves."""

from __future__ import annotations

import os


def fault_of_file(error: Exception) -> str:
    """The fault in one line. The text of an OSError would name the path once more."""
    text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return " ".join(text.split())
