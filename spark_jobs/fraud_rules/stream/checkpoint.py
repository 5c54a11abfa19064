"""Checks the owner and the integrity of a checkpoint before its use. Raises a named error, and repairs nothing.

`plan_log` writes the files. A folder without metadata is not a new checkpoint if it has other files, so this module
checks that all required files exist.
"""

from __future__ import annotations

import json
import posixpath
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.storage import Folder
from fraud_rules.stream.pins import Pin, PinStore

MANIFEST: Final = "detector.json"
RESUMED: Final = "resumed"
"""A file in the checkpoint's folder: the offset of the last lifted stop in the rule log."""

FORMAT: Final = 3
"""The version of the checkpoint's format. It increases when the meaning of the content changes."""

_REMEDIES: Final = {
    "format": "use the version that made it, or rebuild the state (fraud rebuild)",
    "detector": "use the original setting, or an empty folder",
    "keyGroups": "use the original setting, or rebuild the state (fraud rebuild)",
}
METADATA: Final = "metadata"
"""The file with the id of the query: one for all batches of a checkpoint."""

INITIAL: Final = "sources/0/0"
"""The file with the offsets at which the first batch starts."""

OFFSETS: Final = "offsets"
"""The folder with the end offsets of each planned batch."""

COMMITS: Final = "commits"
"""The folder with a file for each finished batch."""

_LOG_VERSIONS = ("v1", "v2")
_POLL_S = 0.3


@dataclass(frozen=True, slots=True)
class CheckpointProgress:
    """The progress of a checkpoint's query. All members are None or empty for an unused checkpoint.

    `committed` is the last finished batch. `planned` has the end offsets of each batch that the checkpoint still
    holds, by topic and partition. `pins` has the pins of these batches.
    """

    query_id: str | None
    committed: int | None
    planned: Mapping[int, Mapping[str, Mapping[str, int]]]
    pins: Mapping[int, Pin]


def manifest(settings: DetectorSettings, schema: TransactionSchema, topic_ids: Mapping[str, str]) -> dict[str, Any]:
    """The values that are fixed for the life of a checkpoint, as a JSON document.

    `topic_ids` are Kafka's ids of the input topics, by name.
    """
    fields = {field.name: [field.type.value, field.nullable, field.scale, *field.normalize] for field in schema.fields}
    return {
        "format": FORMAT,
        "detector": settings.detector,
        "keyGroups": settings.key_groups,
        "fields": fields,
        "topics": dict(topic_ids),
    }


def claim(folder: Folder, wanted: Mapping[str, Any]) -> None:
    """Claim an empty folder for this detector, or check that the folder belongs to it.

    A field that a release adds stays in the manifest, so that no later release declares it differently. A release
    without the field can continue with the checkpoint: it ignores the field in existing rows and writes rows without
    it.

    Raises CheckpointForeign if the folder belongs to another detector, CheckpointDamaged if it has files but no
    manifest.
    """
    known = check_claim(folder, wanted)
    if known is None:
        folder.create(MANIFEST, json.dumps(wanted, indent=1).encode())
    elif added := sorted(wanted["fields"].keys() - known["fields"].keys()):
        fields = {**known["fields"], **{name: wanted["fields"][name] for name in added}}
        grown = {**known, "fields": fields, "addedFields": [*known.get("addedFields", []), *added]}
        folder.create(MANIFEST, json.dumps(grown, indent=1).encode(), replace=True)


def check_claim(folder: Folder, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The manifest of the folder, None for an empty folder. Raises the errors of `claim`, but changes nothing."""
    text = folder.read(MANIFEST)
    if text is None:
        found = [name for name in folder.names() if not name.startswith(".")]
        if found:
            raise CheckpointDamaged(
                f"{folder.root} has no {MANIFEST}, but {', '.join(found[:5])}: restore the file, or use an empty folder"
            )
        return None
    known = _parse(folder, MANIFEST, text.decode("utf-8", "replace"))
    _check_manifest(folder, known, wanted)
    return known


def read_manifest(folder: Folder) -> Mapping[str, Any]:
    """The manifest of the checkpoint, empty for an empty folder. Raises CheckpointDamaged."""
    text = folder.read(MANIFEST)
    return {} if text is None else _parse(folder, MANIFEST, text.decode("utf-8", "replace"))


def topics_of(folder: Folder) -> Mapping[str, str]:
    """Kafka's ids of the topics to which the checkpoint's offsets belong. Empty if the manifest does not have them."""
    try:
        topics = read_manifest(folder).get("topics")
    except CheckpointDamaged:
        return {}
    return topics if isinstance(topics, dict) else {}


def offset_files(folder: Folder, committed: int | None) -> list[str]:
    """The files with the start offsets of the next batch, and with its end offsets if it is planned already."""
    first, planned = (
        (INITIAL, f"{OFFSETS}/0") if committed is None else (f"{OFFSETS}/{committed}", f"{OFFSETS}/{committed + 1}")
    )
    return [name for name in (first, planned) if folder.exists(name)]


def initial_offsets(folder: Folder) -> dict[str, dict[str, int]] | None:
    """The start offsets of the first batch, None before it is planned. Raises CheckpointDamaged."""
    text = folder.read(INITIAL)
    if text is None:
        return None
    return _parse(folder, INITIAL, text.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2])


def read_progress(folder: Folder) -> CheckpointProgress:
    """Read the progress of the checkpoint. Raises CheckpointDamaged for gaps and for unreadable files."""
    query = known_query(folder)
    offsets, commits = batches_of(folder, OFFSETS), batches_of(folder, COMMITS)
    if query is None:
        return CheckpointProgress(None, None, {}, {})
    planned = {batch: _end_offsets(folder, batch) for batch in offsets}
    for batch in commits:
        _log_lines(folder, f"{COMMITS}/{batch}", 2)
    _check_sequence(folder, offsets, commits)
    pins = {batch: pin for batch in offsets if (pin := PinStore(folder).read(batch)) is not None}
    if any(batch not in pins for batch in commits if batch in planned):
        raise CheckpointDamaged(f"{folder.root}/pins lacks pins of finished batches: restore the checkpoint")
    return CheckpointProgress(query, commits[-1] if commits else None, planned, pins)


def read_live_progress(folder: Folder) -> CheckpointProgress:
    """Read the progress of a checkpoint that a detector may be using.

    The detector may create and purge files during a read. So a fault counts as damage only if two reads in a row find
    it. Raises CheckpointDamaged.
    """
    said = None
    while True:
        try:
            return read_progress(folder)
        except CheckpointDamaged as error:
            if str(error) == said:
                raise
            said = str(error)
        time.sleep(_POLL_S)


def end_offsets(folder: Folder, batch_id: int) -> dict[str, dict[str, int]]:
    """The end offsets of a planned batch, by topic and partition (as text)."""
    return _end_offsets(folder, batch_id)


def known_query(folder: Folder) -> str | None:
    """The id of the query, None in an unused checkpoint. Raises CheckpointDamaged."""
    metadata = folder.read(METADATA)
    if metadata is None:
        if any(folder.names(part) for part in (OFFSETS, COMMITS)):
            raise CheckpointDamaged(f"{folder.root}/{METADATA} is missing: restore the checkpoint")
        return None
    known = _parse(folder, METADATA, metadata.decode("utf-8", "replace")).get("id")
    if not isinstance(known, str):
        raise CheckpointDamaged(f"{folder.root}/{METADATA} names no query: restore the checkpoint")
    return known


def batches_of(folder: Folder, log: str) -> list[int]:
    """The ids of the batches with a file in `OFFSETS` or `COMMITS`, ascending."""
    return sorted(int(name) for name in folder.names(log) if name.isdigit())


def checksum_of(name: str) -> str:
    """The file in which Hadoop keeps the checksum of another file. It reads a file without a checksum unchecked."""
    return posixpath.join(posixpath.dirname(name), f".{posixpath.basename(name)}.crc")


def _check_manifest(folder: Folder, known: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name, remedy in _REMEDIES.items():
        if known.get(name) != wanted[name]:
            raise CheckpointForeign(
                f"{folder.root} was made with {name} {known.get(name)!r}, not {wanted[name]!r}: {remedy}"
            )
    topics = known.get("topics")
    for topic, identity in wanted["topics"].items():
        if isinstance(topics, dict) and topics.get(topic) not in (None, identity):
            raise CheckpointForeign(
                f"{folder.root} was made for an earlier topic {topic} (id {topics[topic]}, now {identity}), so its "
                "offsets are invalid here; restore the topic, or give the detector another name and an empty folder"
            )
    for topic in topics if isinstance(topics, dict) else ():
        if topic not in wanted["topics"]:
            raise CheckpointForeign(
                f"{folder.root} was made for a topic {topic} that is not an input now: use the original topic names, "
                "or give the detector another name and an empty folder"
            )
    _check_fields(folder, known, wanted["fields"])


def _check_fields(folder: Folder, known: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    fields = known.get("fields")
    if not isinstance(fields, dict):
        raise CheckpointDamaged(f"{folder.root}/{MANIFEST} has no fields: restore the checkpoint")
    added = known.get("addedFields", [])
    for name, kind in fields.items():
        if name in added and name not in wanted:
            continue
        if wanted.get(name) != kind:
            raise CheckpointForeign(
                f"{folder.root} was made with field {name} as {kind}, now {wanted.get(name)}: a field in use "
                "cannot change; declare a new one beside it"
            )
    for name in wanted.keys() - fields.keys():
        if not wanted[name][1]:
            raise CheckpointForeign(
                f"{folder.root} was made without field {name}: a field added later must be nullable"
            )


def _check_sequence(folder: Folder, offsets: list[int], commits: list[int]) -> None:
    for log, batches in ((OFFSETS, offsets), (COMMITS, commits)):
        if batches and batches != list(range(batches[0], batches[-1] + 1)):
            raise CheckpointDamaged(f"{folder.root}/{log} has gaps: restore the checkpoint")
    last_planned = offsets[-1] if offsets else -1
    last_committed = commits[-1] if commits else -1
    if not last_planned - 1 <= last_committed <= last_planned:
        raise CheckpointDamaged(
            f"{folder.root} plans up to batch {last_planned}, but finished {last_committed}: restore the checkpoint"
        )


def _end_offsets(folder: Folder, batch_id: int) -> dict[str, dict[str, int]]:
    name = f"{OFFSETS}/{batch_id}"
    sources = _log_lines(folder, name, 3)[2:]
    if len(sources) != 1:
        raise CheckpointForeign(
            f"{folder.root}/{name} belongs to a query with {len(sources)} sources, not to this detector"
        )
    topics = _parse(folder, name, sources[0])
    if not all(isinstance(partitions, dict) for partitions in topics.values()):
        raise CheckpointForeign(
            f"{folder.root}/{name} has no offsets of Kafka topics, so it does not belong to this detector"
        )
    return topics


def _log_lines(folder: Folder, name: str, least: int) -> list[str]:
    """Read the lines of a file in Spark's logs: a version, then JSON."""
    lines = (folder.read(name) or b"").decode("utf-8", "replace").splitlines()
    if len(lines) < least or lines[0] not in _LOG_VERSIONS:
        raise CheckpointDamaged(f"{folder.root}/{name} is truncated or has an unknown format: restore the checkpoint")
    _parse(folder, name, lines[1])
    return lines


def _parse(folder: Folder, name: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CheckpointDamaged(f"{folder.root}/{name} cannot be read ({error}): restore the checkpoint") from error
    if not isinstance(document, dict):
        raise CheckpointDamaged(f"{folder.root}/{name} is not a JSON object: restore the checkpoint")
    return document
