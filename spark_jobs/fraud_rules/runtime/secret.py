"""Secret values: a type that encoders refuse and that prints only names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn


class Secrets:
    """Names with secret values. Immutable; two are equal if their names and values are.

    `str`, `repr` and f-strings show the names. The type is no mapping, sequence, dataclass or msgspec struct, so
    msgspec, json and yaml refuse it. Only `reveal` returns the values, and a review finds its callers easily.

    Pickle keeps the values, because Spark's workers read the rule log themselves and receive their connection with the
    task. So a pickle of it is a secret too. It may be in Spark's own traffic (`spark.network.crypto.enabled` encrypts
    that), but not in a file, a topic or a log.
    """

    __slots__ = ("_values",)
    _values: tuple[tuple[str, str], ...]

    def __init__(self, values: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        object.__setattr__(self, "_values", tuple(sorted(dict(values).items())))

    def reveal(self) -> dict[str, str]:
        """The values by name, for a Kafka client or the environment of a process."""
        return dict(self._values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secrets) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(f'{name}=***' for name, _ in self._values)})"

    def __reduce__(self) -> tuple[type[Secrets], tuple[tuple[tuple[str, str], ...]]]:
        return Secrets, (self._values,)
