"""The frames of a key group's log on a host: shared by processes in turn, and read up to the first damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from fraud_rules.stream.worker.frame_file import FrameFile


def opened(path: Path) -> FrameFile:
    file = FrameFile(path)
    file.refresh()
    return file


def contents(file: FrameFile) -> dict[str, bytes | None]:
    return {name: file.read(name) for name in file}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "frames"


def test_a_frame_has_the_content_that_was_appended_last(path: Path) -> None:
    file = opened(path)
    for name, content in (("a", b"1"), ("b", b""), ("a", b"2" * 100_000)):
        file.append({name: content})
    assert contents(file) == contents(opened(path)) == {"a": b"2" * 100_000, "b": b""}
    assert file.read("c") is None


def test_processes_that_take_turns_see_each_others_frames(path: Path) -> None:
    files = [opened(path), opened(path)]
    for turn in range(200):
        file = files[turn % 2]
        file.refresh()
        assert set(file) >= {f"n{number}" for number in range(max(0, turn - 5), turn)}
        file.append({f"n{turn}": b"x" * turn})
        file.keep({f"n{number}" for number in range(turn - 4, turn + 1)})
    for file in (*files, opened(path)):
        file.refresh()
        file.keep({f"n{number}" for number in range(195, 200)})
        assert contents(file) == {f"n{number}": b"x" * number for number in range(195, 200)}


def test_dropped_frames_leave_the_file(path: Path) -> None:
    file = opened(path)
    for number in range(1_000):
        file.append({"same": bytes(1_000)})
        file.append({f"n{number}": bytes(1_000)})
        file.keep({"same", f"n{number}"})
    assert path.stat().st_size < 600_000


def test_an_append_replaces_a_frame_that_a_dead_writer_left_unfinished(path: Path) -> None:
    opened(path).append({"a": b"1" * 20})
    whole = path.stat().st_size
    opened(path).append({"b": b"2" * 60})
    both = path.read_bytes()
    for cut in range(1, 60):
        path.write_bytes(both[:-cut])
        file = opened(path)
        assert set(file) == {"a"}, cut
        file.append({"c": b"3"})
        assert contents(opened(path)) == {"a": b"1" * 20, "c": b"3"}, cut
        assert path.stat().st_size > whole


def test_damage_is_not_taken_for_a_frame_of_another_name(path: Path) -> None:
    names = ["first", "second", "third"]
    for name in names:
        opened(path).append({name: name.encode()})
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        found = opened(path)
        assert list(found) == names[: len(list(found))], at
        assert sum(found.read(name) != name.encode() for name in found) <= 1, at


def test_a_lost_file_is_an_empty_file(path: Path) -> None:
    file = opened(path)
    file.append({"a": b"1"})
    path.unlink()
    file.refresh()
    assert list(file) == []
    file.append({"b": b"2"})
    assert contents(opened(path)) == {"b": b"2"}
