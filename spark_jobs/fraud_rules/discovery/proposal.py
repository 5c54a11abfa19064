"""Proposes the fields of a schema for the places of a sample. Pure.

Each decision that the records do not prove is a doubt, in words for the person who knows the payments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fraud_rules.discovery.forms import ConnectType, FieldForm, NoForm, form_of, form_of_any, form_of_time, is_unique
from fraud_rules.discovery.names import name_of
from fraud_rules.discovery.profile import Profile, ValuePlace
from fraud_rules.discovery.times import TimeGuess, time_of
from fraud_rules.discovery.words import ID_WORDS, KEY_WORDS, TIME_WORDS, score
from fraud_rules.errors import TopicNotUnderstood
from fraud_rules.model.day import DAY_MS
from fraud_rules.model.declared.field_source import Path, path_text
from fraud_rules.model.schema import ID_FIELD, MAX_FIELDS, TIME_FIELD, Field, FieldType

_FEW_RECORDS: Final = 100
_MOST_WITHOUT: Final = 0.02
"""The largest share of records that may lack the id or the time. They are unreadable then."""

_RECENT_MS: Final = 2 * DAY_MS
_MOST_VALUES: Final = 12
_EXAMPLE_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class ProposedField:
    """A field, what the sample says about it, and its usual texts."""

    field: Field
    comment: str
    values: Sequence[str] = ()


@dataclass(slots=True)
class Proposal:
    """The fields, suggested grouping keys, the doubts, and the places that became no field with their reason."""

    fields: list[ProposedField] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def propose(
    profile: Profile,
    append_ms: Sequence[int | None],
    *,
    types: Mapping[Path, ConnectType],
    chosen_id: Path | None = None,
    chosen_time: Path | None = None,
    by_position: bool = False,
) -> Proposal:
    """Propose a schema. `append_ms` has the append time of each record, `types` the types that records declare.

    `chosen_id` and `chosen_time` are the answers to doubts about the two required fields. `by_position`: the fields are
    the columns of a line, so none can be left out. Raises TopicNotUnderstood without an id or a time.
    """
    times = {path: guess for path, place in profile.places.items() if (guess := time_of(place, append_ms))}
    return _Proposer(profile, times, types, by_position).propose(chosen_id, chosen_time)


@dataclass(slots=True)
class _Proposer:
    profile: Profile
    times: Mapping[Path, TimeGuess]
    types: Mapping[Path, ConnectType]
    by_position: bool
    result: Proposal = field(default_factory=Proposal)

    def propose(self, chosen_id: Path | None, chosen_time: Path | None) -> Proposal:
        time = self._choose_time(chosen_time)
        identity = self._choose_id(chosen_id, time)
        for place in self._ordered(identity, time):
            try:
                self._add(place, {identity: ID_FIELD, time: TIME_FIELD}.get(place.path))
            except NoForm as reason:
                self._leave_out(place, str(reason))
        self.result.left_out += [
            f"{path_text(path)}: an array; read an element as {path_text(path)}[0]"
            for path in sorted(self.profile.arrays, key=path_text)
        ]
        return self.result

    def _ordered(self, identity: Path, time: Path) -> Iterator[ValuePlace]:
        places = self.profile.places
        first = [] if self.by_position else [identity, time]
        yield from (places[path] for path in first)
        yield from (place for path, place in places.items() if path not in first)

    # The two required fields

    def _choose_time(self, chosen: Path | None) -> Path:
        if chosen is not None:
            return _known(chosen, self.times, "a time")
        complete = [path for path in self.times if self.profile.places[path].null_share <= _MOST_WITHOUT]
        if not complete:
            incomplete = ", ".join(map(path_text, self.times)) or "none"
            raise TopicNotUnderstood(
                f"no member is a time in every record (times in some: {incomplete}). Choose one with --time PATH; a "
                "date alone is no time",
                missing="time",
            )
        ranked = sorted(complete, key=self._time_rank, reverse=True)
        twins = [path for path in ranked[1:] if self._time_rank(path) == self._time_rank(ranked[0])]
        self._doubt_between("eventTime", "--time", ranked[0], twins)
        return ranked[0]

    def _time_rank(self, path: Path) -> tuple[int, int, int]:
        lag_ms = self.times[path].median_lag_ms
        is_recent = lag_ms is None or abs(lag_ms) < _RECENT_MS
        return int(is_recent), score(path, TIME_WORDS), -len(path)

    def _choose_id(self, chosen: Path | None, time: Path) -> Path:
        places = self.profile.places
        if chosen is not None:
            return _known(chosen, places, "a member")
        unique = [path for path, place in places.items() if is_unique(place) and place.null_share <= _MOST_WITHOUT]
        candidates = [path for path in unique if path != time and path not in self.times]
        if not candidates:
            raise TopicNotUnderstood(
                "no member has another value in every record, so none is the payment's id. Choose one with --id PATH. "
                "If the records have none, let the producer add one: by it the detector recognizes a payment that is "
                "delivered twice",
                missing="id",
            )
        ranked = sorted(candidates, key=lambda path: (score(path, ID_WORDS), -len(path)), reverse=True)
        twins = [path for path in ranked[1:] if score(path, ID_WORDS) == score(ranked[0], ID_WORDS)]
        self._doubt_between("transactionId", "--id", ranked[0], twins)
        return ranked[0]

    def _doubt_between(self, name: str, option: str, chosen: Path, twins: Sequence[Path]) -> None:
        if twins:
            others = ", ".join(map(path_text, twins))
            self.result.doubts.append(f"{name} is {path_text(chosen)}; it could be {others} too ({option} PATH)")

    # One field

    def _add(self, place: ValuePlace, required: str | None) -> None:
        """Add the field of a place. `required` is its name if it is the id or the event time. Raises NoForm."""
        form = self._form(place, required)
        if len(self.result.fields) == MAX_FIELDS:
            raise NoForm(f"a schema has at most {MAX_FIELDS} fields")
        in_use = {ID_FIELD, TIME_FIELD, *(each.field.name for each in self.result.fields)}
        name = required or name_of(place.path, self.profile.places, in_use)
        is_named = self.by_position or place.path == (name,)
        proposed = Field(
            name,
            form.type,
            nullable=required is None and (place.null_share > 0 or self.profile.records < _FEW_RECORDS),
            precision=form.precision,
            scale=form.scale,
            source=form.source if is_named else replace(form.source, path=place.path),
        )
        if form.doubt:
            self.result.doubts.append(form.doubt)
        values = _usual_values(place) if form.type is FieldType.STRING and required is None else ()
        self.result.fields.append(ProposedField(proposed, _comment(place), values))
        if required is None and _is_key(place, form):
            self.result.keys.append(name)

    def _form(self, place: ValuePlace, required: str | None) -> FieldForm:
        if required == TIME_FIELD:
            return form_of_time(place, self.times[place.path])
        if required == ID_FIELD:
            return form_of_any(place)
        if any(other[: len(place.path)] == place.path for other in self.profile.places if other != place.path):
            raise NoForm("an object in other records")
        form = form_of(place, self.times, self.types)
        is_useless = form.type is FieldType.STRING and is_unique(place) and not score(place.path, KEY_WORDS)
        if is_useless and self.profile.records >= _FEW_RECORDS and not self.by_position:
            raise NoForm("another text in every record, which no rule can use")
        return form

    def _leave_out(self, place: ValuePlace, reason: str) -> None:
        if self.by_position:
            raise TopicNotUnderstood(
                f"{path_text(place.path)}: {reason}. A line cannot leave out a column before others"
            )
        self.result.left_out.append(f"{path_text(place.path)}: {reason}")


def _known(path: Path, places: Collection[Path], what: str) -> Path:
    if path not in places:
        known = ", ".join(map(path_text, places)) or "none"
        raise TopicNotUnderstood(f"{path_text(path)} is not {what} in the records. There is: {known}")
    return path


def _comment(place: ValuePlace) -> str:
    nulls = f"{place.null_share:.1%} null, " if place.null_share else ""
    examples = ", ".join(dict.fromkeys(place.present[:20]))[:_EXAMPLE_CHARS]
    return f"{nulls}{place.distinct} different values in {len(place.values)} records: {examples}"


def _usual_values(place: ValuePlace) -> Sequence[str]:
    found = sorted(set(place.present))
    return found if len(found) <= _MOST_VALUES and len(place.present) >= _FEW_RECORDS else ()


def _is_key(place: ValuePlace, form: FieldForm) -> bool:
    is_groupable = form.type in (FieldType.LONG, FieldType.STRING)
    return is_groupable and score(place.path, KEY_WORDS) > 0 and place.distinct > 1
