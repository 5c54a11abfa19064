"""Stores a key group's durable log in Spark's state store."""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from fraud_rules.errors import StateDamaged
from fraud_rules.stream.worker.compression import compress, decompress

_BLOB = StructType([StructField("blob", BinaryType(), nullable=False)])
_ID = StructType([StructField("id", LongType(), nullable=False)])
LOG = "log"
"""The name of the state variable."""

HEAD = -1
"""The id of the head in the state variable."""


class StateStoreLog:
    """A `StateLog` in the state of Spark's current key.

    One map holds the chunks and the head by id, because Spark sets every state variable up again for each task, which
    takes longer than its use.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._log = handle.getMapState(LOG, _ID, _BLOB)

    def head(self) -> bytes | None:
        return self._get(HEAD)

    def put_head(self, head: bytes) -> None:
        self._log.updateValue((HEAD,), (compress(head),))

    def chunk(self, chunk_id: int) -> bytes:
        blob = self._get(chunk_id)
        if blob is None:
            raise StateDamaged(f"the state store has lost chunk {chunk_id} of a key group: restore the checkpoint")
        return blob

    def put_chunk(self, chunk_id: int, blob: bytes) -> None:
        self._log.updateValue((chunk_id,), (compress(blob),))

    def delete_chunk(self, chunk_id: int) -> None:
        self._log.removeKey((chunk_id,))

    def _get(self, entry: int) -> bytes | None:
        row = self._log.getValue((entry,))
        return None if row is None else decompress(bytes(row[0]))
