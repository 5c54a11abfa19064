"""A key group's durable log in Spark's state store."""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from fraud_rules.errors import StateDamaged

_BLOB = StructType([StructField("blob", BinaryType(), nullable=False)])
_ID = StructType([StructField("id", LongType(), nullable=False)])


class StateStoreLog:
    """`StateLog` over the state of the key that Spark has made current: the head a value, the chunks a map."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", _BLOB)
        self._chunks = handle.getMapState("chunks", _ID, _BLOB)

    def head(self) -> bytes | None:
        row = self._head.get()
        return None if row is None else bytes(row[0])

    def put_head(self, head: bytes) -> None:
        self._head.update((head,))

    def chunk(self, chunk_id: int) -> bytes:
        row = self._chunks.getValue((chunk_id,))
        if row is None:
            raise StateDamaged(f"the state store has lost chunk {chunk_id} of a key group: restore the checkpoint")
        return bytes(row[0])

    def put_chunk(self, chunk_id: int, blob: bytes) -> None:
        self._chunks.updateValue((chunk_id,), (blob,))

    def delete_chunk(self, chunk_id: int) -> None:
        self._chunks.removeKey((chunk_id,))
