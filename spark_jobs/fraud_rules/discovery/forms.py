"""The type and the form of a field, from the values at its place. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fraud_rules.codec.scalar import INT64_MAX, INT64_MIN
from fraud_rules.discovery.profile import ValueKind, ValuePlace
from fraud_rules.discovery.times import TimeGuess
from fraud_rules.discovery.words import AMOUNT_WORDS, CURRENCY_WORDS, MINOR_WORDS, TIME_WORDS, is_about, words_of
from fraud_rules.model.declared.field_source import FieldSource, Path, WrittenAs, path_text
from fraud_rules.model.schema import MAX_PRECISION, FieldType

_USUAL_SCALE: Final = 2
_MOST_REPEATED: Final = 0.02
"""The largest share of records whose id another record has too, because it was delivered twice."""

_PLAIN: Final = FieldSource()
_NUMBERS: Final = (ValueKind.WHOLE, ValueKind.FRACTION, ValueKind.WHOLE_TEXT, ValueKind.FRACTION_TEXT)
_TEXTS: Final = (ValueKind.TEXT, ValueKind.WHOLE_TEXT, ValueKind.FRACTION_TEXT, ValueKind.TIME_TEXT)


class NoForm(Exception):
    """The values at a place fit no type. The text says why."""


@dataclass(frozen=True, slots=True)
class ConnectType:
    """The type of a member by the schema inside Kafka Connect's envelope: its name, and the scale of a decimal."""

    name: str
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class FieldForm:
    """The type of a field, how its values are written, and a doubt about that; empty for none."""

    type: FieldType
    source: FieldSource = _PLAIN
    precision: int = 0
    scale: int = 0
    doubt: str = ""


def form_of(place: ValuePlace, times: Mapping[Path, TimeGuess], types: Mapping[Path, ConnectType]) -> FieldForm:
    """The form of a field that is neither the id nor the event time. Raises NoForm."""
    guess, declared = times.get(place.path), types.get(place.path)
    if declared is not None and declared.scale is not None and place.is_only(*_TEXTS):
        return FieldForm(FieldType.DECIMAL, FieldSource(written_as=WrittenAs.BASE64), MAX_PRECISION, declared.scale)
    if guess is not None and _is_time(place):
        return form_of_time(place, guess)
    if place.is_only(*_NUMBERS) and is_about(place.path, AMOUNT_WORDS) and not is_about(place.path, CURRENCY_WORDS):
        return _amount(place)
    return form_of_any(place)


def form_of_any(place: ValuePlace) -> FieldForm:
    """The form of values without a look at the name. Raises NoForm."""
    if place.is_only(ValueKind.BOOLEAN):
        return FieldForm(FieldType.BOOLEAN)
    if place.is_only(ValueKind.WHOLE):
        return _whole(place)
    if place.is_only(ValueKind.WHOLE, ValueKind.FRACTION):
        return _amount(place)
    if place.is_only(*_TEXTS):
        return FieldForm(FieldType.STRING)
    if not place.kinds:
        raise NoForm("only nulls")
    if len(place.kinds) == 1:
        raise NoForm(f"every value is {next(iter(place.kinds))}")
    raise NoForm("values of several kinds: " + ", ".join(f"{n} {kind}" for kind, n in place.kinds.most_common()))


def form_of_time(place: ValuePlace, guess: TimeGuess) -> FieldForm:
    """The form of a timestamp."""
    doubt = ""
    if guess.shift_h:
        direction = "ahead of" if guess.shift_h > 0 else "behind"
        doubt = (
            f"{path_text(place.path)} has times without an offset, {abs(guess.shift_h)} h {direction} their arrival. "
            f"Zone {guess.zone} fits today, but has no summer time: write the zone's name, such as Europe/Berlin"
        )
    source = FieldSource(unit=guess.unit, zone=guess.zone, written_as=guess.written_as)
    return FieldForm(FieldType.TIMESTAMP, source, doubt=doubt)


def is_unique(place: ValuePlace) -> bool:
    """Whether nearly every record has another value here, as an id has."""
    is_id_like = place.is_only(ValueKind.WHOLE, ValueKind.TEXT, ValueKind.WHOLE_TEXT)
    return is_id_like and place.distinct >= (1 - _MOST_REPEATED) * len(place.present)


def _is_time(place: ValuePlace) -> bool:
    """Whether a place whose values can be times holds times. Numbers do if their name says so."""
    is_number = place.is_only(ValueKind.WHOLE, ValueKind.FRACTION, ValueKind.WHOLE_TEXT)
    return not is_number or any(word in TIME_WORDS for word in words_of(place.path[-1:]))


def _amount(place: ValuePlace) -> FieldForm:
    fraction = max(len(value.partition(".")[2].rstrip("0")) for value in place.present)
    whole = max(len(value.lstrip("-").partition(".")[0]) for value in place.present)
    scale = max(fraction, _USUAL_SCALE)
    if scale + whole > MAX_PRECISION or any("e" in value.lower() for value in place.present):
        raise NoForm(f"numbers that need more than {MAX_PRECISION} digits or an exponent, such as {place.present[0]}")
    doubt, is_minor = "", False
    if place.is_only(ValueKind.WHOLE, ValueKind.WHOLE_TEXT):
        is_minor = is_about(place.path, MINOR_WORDS)
        if not is_minor:
            doubt = f"{path_text(place.path)} has only whole numbers: if 1250 means 12.50, write `scaled: true`"
    return FieldForm(FieldType.DECIMAL, FieldSource(scaled=is_minor), MAX_PRECISION, scale, doubt)


def _whole(place: ValuePlace) -> FieldForm:
    numbers = list(map(int, place.present))
    if min(numbers) >= INT64_MIN and max(numbers) <= INT64_MAX:
        return FieldForm(FieldType.LONG)
    return FieldForm(FieldType.STRING, FieldSource(written_as=WrittenAs.NUMBER))
