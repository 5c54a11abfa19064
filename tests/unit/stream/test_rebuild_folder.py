"""A checkpoint is replaced by a fresh one: the old one is kept, and a death at any moment leaves one or the other."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fraud_rules.spark.storage import DiskFolder
from fraud_rules.stream.checkpoint import RESUMED
from fraud_rules.stream.driver.job import RebuildOrder
from fraud_rules.stream.driver.marker import Beginning, Marker, beginning_of
from fraud_rules.stream.driver.rebuild import begin_rebuild, finish_rebuild, is_executed
from fraud_rules.stream.pins import Pin, PinStore
from fraud_rules.stream.state_position import empty_position

ORDER = RebuildOrder("one")
MARKER = Marker("query", 7, {"transactions": {"0": 5}}, Pin(7, 3))
MANIFEST = {"format": 1, "detector": "cards", "keyGroups": 4, "fields": {}, "topics": {}}


STATE = empty_position("id", [0], [0], 4)


@pytest.mark.parametrize(
    ("beginning", "continues"),
    [
        (Beginning(msgspec.structs.replace(MARKER, state=STATE)), True),
        (Beginning(MARKER), False),
        (Beginning(MARKER, "one"), True),
        (Beginning(None), False),
    ],
    ids=["adopted", "adopted without state", "rebuilt", "new"],
)
def test_adopted_and_rebuilt_state_continues_the_history(beginning: Beginning, *, continues: bool) -> None:
    assert beginning.continues is continues


class Died(Exception):
    """The process died, like after a power cut."""


class Mortal(DiskFolder):
    """A folder whose process dies at the n-th move."""

    lives = 99

    def move(self, root: str) -> bool:
        Mortal.lives -= 1
        if Mortal.lives < 0:
            raise Died
        return super().move(root)

    def beside(self, suffix: str) -> Mortal:
        return Mortal(Path(self.root + suffix))


@pytest.fixture
def folder(tmp_path: Path) -> Mortal:
    folder = Mortal(tmp_path / "checkpoint")
    folder.create("state/0/1.delta", b"torn")
    folder.create(RESUMED, b"12")
    return folder


def asides(folder: DiskFolder) -> list[Path]:
    path = Path(folder.root)
    return list(path.parent.glob(f"{path.name}.aside-*"))


@pytest.mark.parametrize("lives", [0, 1, 2])
def test_a_death_on_the_way(folder: Mortal, lives: int) -> None:
    Mortal.lives = lives
    if lives < 2:
        with pytest.raises(Died):
            begin_rebuild(folder, ORDER, MARKER, MANIFEST)
    else:
        begin_rebuild(folder, ORDER, MARKER, MANIFEST)
    Mortal.lives = 99
    folder.hold()
    folder.release()
    finish_rebuild(folder)
    if lives == 0:
        assert folder.read("state/0/1.delta") == b"torn", "the old one is still in place"
        assert not is_executed(folder, ORDER)
        begin_rebuild(folder, ORDER, MARKER, MANIFEST)
    assert is_executed(folder, ORDER)
    assert beginning_of(folder) == Beginning(MARKER, "one")
    assert folder.read(RESUMED) == b"12", "a stop that was lifted stays lifted"
    assert PinStore(folder).read(-1) == Pin(-1, 3)
    (aside,) = asides(folder)
    assert (aside / "state/0/1.delta").read_bytes() == b"torn"


def test_nothing_to_finish_changes_nothing(folder: Mortal) -> None:
    finish_rebuild(folder)
    assert folder.read("state/0/1.delta") == b"torn"
    empty = folder.beside("-empty")
    finish_rebuild(empty)
    assert not Path(empty.root).exists()


def test_a_folder_in_use_stays_in_place(folder: Mortal) -> None:
    works, wants = DiskFolder(Path(folder.root)), DiskFolder(Path(folder.root))
    assert works.hold()
    assert not wants.hold(exclusive=True)
    works.release()
    assert wants.hold(exclusive=True)
    assert not works.hold()
