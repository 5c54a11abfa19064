"""Reads a checkpoint's files and the topic of the state, without a JVM and without changes."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from airflow.sdk import BaseHook

from fraud_ops.verdicts.checkpoint import CheckpointFacts, StateFacts, TopicFacts
from fraud_rules.configuration.mounted_folder import mounted_folder
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, StateDamaged
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import topic_starts
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.topics import retentions_ms
from fraud_rules.runtime.clock import MS_PER_S, now_ms

__all__ = ["CheckpointHook"]

_RECENT_S = 900.0


class CheckpointHook(BaseHook):
    """One checkpoint on a disk of this host."""

    def __init__(self, root: str) -> None:
        """Raise ConfigError if the checkpoint is in an object store or in HDFS."""
        super().__init__()
        self.root = mounted_folder(root, "checkpoint")

    def facts(self, detector: str, *, recent_s: float = _RECENT_S) -> CheckpointFacts:
        """The facts of the checkpoint. Only files younger than `recent_s` are compared with their checksums."""
        from fraud_rules.spark.storage import DiskFolder
        from fraud_rules.stream.checkpoint import MANIFEST, read_live_progress

        root = str(self.root)
        if not (self.root / MANIFEST).is_file():
            fault = f"{root} has no {MANIFEST}: it is missing, or is not a checkpoint"
            return CheckpointFacts(root, fault=fault, foreign=True, absent=True)
        try:
            owner = json.loads((self.root / MANIFEST).read_bytes()).get("detector")
            if owner != detector:
                return CheckpointFacts(root, fault=f"{root} belongs to the detector {owner}", foreign=True)
            progress = read_live_progress(DiskFolder(self.root))
        except (CheckpointDamaged, ValueError, OSError) as error:
            return CheckpointFacts(root, fault=" ".join(str(error).split()))
        except CheckpointForeign as error:
            return CheckpointFacts(root, fault=str(error), foreign=True)
        files = list(self._files())
        recent = [path for path in files if now_ms() / MS_PER_S - _mtime(path) < recent_s]
        checked = [path for path in recent if _checksum_of(path) is not None]
        ends = progress.planned.get(progress.committed or 0, {}) if progress.committed is not None else {}
        return CheckpointFacts(
            root,
            planned=max(progress.planned, default=None),
            committed=progress.committed,
            commit_age_ms=self._commit_age_ms(progress.committed),
            damaged=[str(path.relative_to(self.root)) for path in checked if not _matches(path)],
            checked_files=len(checked),
            size_bytes=sum(_size(path) for path in files),
            files=len(files),
            free_bytes=shutil.disk_usage(self.root).free,
            next_offsets={topic: {int(part): end for part, end in each.items()} for topic, each in ends.items()},
        )

    def topics(self, kafka: KafkaConnection, facts: CheckpointFacts, now_ms: int) -> TopicFacts:
        """The facts of the source topics. `now_ms` is the broker's time. Raises BrokerUnavailable."""
        names, ends = list(facts.next_offsets), TopicEnds(kafka)
        written = ends.written({name: ends.partitions(name) for name in names})
        return TopicFacts(
            {name: topic_starts(kafka, name) for name in names},
            {name: {int(at): end for at, end in written[name].items()} for name in names},
            {name: dict(_unread_ages_ms(kafka, name, facts.next_offsets[name], now_ms)) for name in names},
            retentions_ms(kafka, names),
        )

    def state(self, kafka: KafkaConnection, settings: DetectorSettings) -> StateFacts:
        """The facts of the topic `detector-state`. Raises BrokerUnavailable."""
        from fraud_rules.kafka.reader import has_topic
        from fraud_rules.kafka.suitable import faults_of_state, settings_of_topic
        from fraud_rules.stream.driver.marker import read_marker
        from fraud_rules.stream.driver.state_guard import check_state

        topics = settings.topics
        try:
            marker = read_marker(kafka, settings)
            check_state(kafka, settings, marker)
        except StateDamaged as error:
            return StateFacts(fault=str(error))
        except CheckpointForeign as error:
            return StateFacts(fault=str(error), foreign=True)
        unsuitable: Sequence[str] = ()
        if has_topic(kafka, topics.detector_state):
            found = settings_of_topic(kafka, topics.detector_state)
            unsuitable = tuple(faults_of_state(topics.detector_state, found))
        return StateFacts(batch_id=None if marker is None else marker.batch_id, unsuitable=unsuitable)

    def _files(self) -> Iterator[Path]:
        """All files. A running detector creates and deletes files, so some may be gone when they are read."""
        for folder, _, names in os.walk(self.root):
            yield from (Path(folder, name) for name in names)

    def _commit_age_ms(self, committed: int | None) -> int | None:
        if committed is None:
            return None
        return now_ms() - int(_mtime(self.root / "commits" / str(committed)) * MS_PER_S)


def _unread_ages_ms(
    kafka: KafkaConnection, topic: str, next_offsets: Mapping[int, int], now_ms: int
) -> Iterator[tuple[int, int]]:
    """By partition, the age of the oldest record that no finished batch has read. Other partitions are missing."""
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            first, end = reader.ends(partition)
            with closing(reader.read(max(first, next_offsets.get(partition, 0)), end, partition)) as unread:
                if (oldest := next(unread, None)) is not None:
                    yield partition, now_ms - oldest.append_ms


def _checksum_of(path: Path) -> Path | None:
    """Hadoop's hidden file with a file's checksum; None without one.

    The checksums of hidden files are ignored, because a killed detector leaves half-written hidden files.
    """
    beside = path.with_name(f".{path.name}.crc")
    return beside if not path.name.startswith(".") and beside.is_file() else None


def _matches(path: Path) -> bool:
    """Whether a file matches its checksum. A file that was deleted in the meantime counts as a match."""
    beside = _checksum_of(path)
    try:
        content = path.read_bytes()
        checksum = beside.read_bytes() if beside is not None else b""
    except FileNotFoundError:
        return True
    return _matches_hadoop(content, checksum)


def _matches_hadoop(content: bytes, checksum: bytes) -> bool:
    try:
        (step,) = struct.unpack(">i", checksum[4:8])
        sums = [zlib.crc32(content[at : at + step]) for at in range(0, len(content), step)]
    except (struct.error, ValueError):
        return False
    return checksum[8:] == struct.pack(f">{len(sums)}I", *sums)


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
