"""Records in Avro, Protobuf and JSON Schema, decoded to trees of Python values."""
