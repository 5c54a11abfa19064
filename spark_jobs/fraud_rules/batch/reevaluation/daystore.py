"""Stores the state at the end of each re-evaluated day, and its result, in atomic files beside the archive."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from fraud_rules.batch.archive.place import ArchivePath, make_folder, remove_tree
from fraud_rules.batch.archive.store import ArchiveStore, locked, named_storage_errors, unreachable_named, write_whole
from fraud_rules.batch.reevaluation.basis import Basis, SavedState
from fraud_rules.batch.reevaluation.report import DayResult, decode_result, encode_result
from fraud_rules.errors import ArchiveDamaged, DayBusy
from fraud_rules.model.day import Day

_KEPT_STATES = 40
_WAIT_S = 43_200.0
_IMAGE = "state-"
_LENGTH = struct.Struct("<Q")


_decode_state = msgspec.json.Decoder(SavedState).decode


@dataclass(frozen=True, slots=True)
class DayStore:
    """The folder `reevaluation` of an archive."""

    archive: ArchiveStore

    @property
    def root(self) -> ArchivePath:
        """The path of the folder."""
        return self.archive.root / "reevaluation"

    def exclusive(self, day: Day, *, wait: bool = False) -> AbstractContextManager[None]:
        """Lock the day, so that no other run evaluates it. Raises DayBusy; with `wait`, only after half a day.

        An object store has no lock: two runs compute the same result, and the state names the files of one of them. A
        holder waits only for earlier days, so there is no deadlock.
        """
        busy = DayBusy(f"another run evaluates {day}: wait for its result")
        return locked(self._of(day) / "lock", busy, _WAIT_S if wait else 0.0)

    def result(self, day: Day) -> DayResult | None:
        """The result of a day, None if it was not evaluated. Raises ArchiveDamaged."""
        path = self._of(day) / "result.json"
        try:
            with unreachable_named(path):
                return decode_result(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise ArchiveDamaged(f"{path} cannot be read ({error}): remove it and evaluate the day again") from error

    def save_result(self, result: DayResult, page: bytes) -> ArchivePath:
        """Save a result and its page. Return the path of the page."""
        folder = self._of(Day.parse(result.day))
        write_whole(folder / "report.html", page)
        write_whole(folder / "result.json", encode_result(result))
        return folder / "report.html"

    def page(self, day: Day) -> ArchivePath:
        """The path of a day's page, which exists once there is a result."""
        return self._of(day) / "report.html"

    def evaluated_days(self) -> list[Day]:
        """The days with a result, ascending."""
        with named_storage_errors(self.root):
            found = [path.parent.name for path in self.root.glob("day=*/result.json")]
        return sorted(Day.parse(name.removeprefix("day=")) for name in found)

    def state(self, day: Day) -> SavedState | None:
        """The saved state at the end of a day."""
        path = self._of(day) / "state.json"
        try:
            with unreachable_named(path):
                return _decode_state(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError):
            return None  # an unreadable state is recomputed like a missing one

    def new_folder(self, day: Day, run: str) -> ArchivePath:
        """An empty folder for a run's files of a day."""
        folder = self._of(day) / f"run-{run}"
        with named_storage_errors(folder):
            make_folder(folder)
        return folder

    def keep_state(self, day: Day, folder: ArchivePath, basis: Basis) -> None:
        """Make the images of a run's folder the state of the day's end."""
        groups = sorted(int(path.name.removeprefix(_IMAGE)) for path in folder.glob(f"{_IMAGE}*"))
        known = self.state(day)
        write_whole(self._of(day) / "state.json", msgspec.json.encode(SavedState(folder.name, basis, tuple(groups))))
        # Another run may still read the previous state. No run reads older ones.
        kept = {folder.name, known.folder if known else ""}
        for other in self._of(day).glob("run-*"):
            if other.name not in kept:
                remove_tree(other)

    def prune(self) -> None:
        """Delete all states except the newest. Results stay."""
        with_state: list[ArchivePath] = [*self.root.glob("day=*/state.json")]
        with_state.sort(key=str)
        for path in with_state[:-_KEPT_STATES]:
            path.unlink(missing_ok=True)
            for folder in path.parent.glob("run-*"):
                remove_tree(folder)

    def drop_states(self, first: Day) -> list[Day]:
        """Delete the states of the days from `first` on, with the files of their runs, and return these days. Results
        stay. Raises DayBusy while a run evaluates one of these days.
        """
        dropped = []
        with named_storage_errors(self.root):
            days = sorted(Day.parse(path.name.removeprefix("day=")) for path in self.root.glob("day=*"))
        for day in days:
            if day < first:
                continue
            with self.exclusive(day), named_storage_errors(self._of(day)):
                runs: list[ArchivePath] = [*self._of(day).glob("run-*")]
                (self._of(day) / "state.json").unlink(missing_ok=True)
                for folder in runs:
                    remove_tree(folder)
            if runs:
                dropped.append(day)
        return dropped

    def images(self, day: Day, state: SavedState, key_groups: Sequence[int]) -> Mapping[int, bytes]:
        """The images of some key groups. Raises ArchiveDamaged."""
        folder = self._of(day) / state.folder
        return {group: read_image(folder, group) for group in key_groups if group in state.groups}

    def _of(self, day: Day) -> ArchivePath:
        return self.root / f"day={day}"


def write_image(folder: ArchivePath, key_group: int, image: bytes) -> None:
    """Write a key group's state, compressed. Raises StorageFull."""
    packed = pa.compress(image, codec="zstd", asbytes=True)
    path = folder / f"{_IMAGE}{key_group}"
    with named_storage_errors(path):
        path.write_bytes(_LENGTH.pack(len(image)) + packed)


def read_image(folder: ArchivePath, key_group: int) -> bytes:
    """Read the result of `write_image`. Raises ArchiveDamaged."""
    path = folder / f"{_IMAGE}{key_group}"
    try:
        content = path.read_bytes()
        image: bytes = pa.decompress(
            content[_LENGTH.size :], _LENGTH.unpack_from(content)[0], codec="zstd", asbytes=True
        )
    except (OSError, struct.error, pa.ArrowException) as error:
        raise ArchiveDamaged(
            f"{path} is corrupt: remove {folder.parent}/state.json, so that the state is recomputed"
        ) from error
    return image
