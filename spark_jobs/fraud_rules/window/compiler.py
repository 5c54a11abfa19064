"""How the window functions are compiled, and where the machine code is kept.

numba keeps code by the source file of each function, but these functions are compiled into one another: a change of one
file would leave the others' code stale. So the folder carries a digest of the whole package.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numba


def _code_folder() -> Path:
    """FRAUD_CACHE_DIR or the user's cache folder, or a temporary one where that cannot be written."""
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    name = f"numba-{digest.hexdigest()}"
    wanted = Path(os.environ.get("FRAUD_CACHE_DIR") or Path.home() / ".cache" / "fraud-rules") / name
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / f"fraud-rules-{os.getuid()}" / name
    return wanted


numba.config.CACHE_DIR = str(_code_folder())

# No reference counts: they would cost more than the work, and nothing compiled here allocates or keeps an array.
compiled = numba.njit(cache=True, _nrt=False)
inlined = numba.njit(cache=True, _nrt=False, forceinline=True)
