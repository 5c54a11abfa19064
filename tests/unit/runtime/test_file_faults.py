"""An error about a file names the path once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fraud_rules.cli.display.api_answers import read_file, write_file
from fraud_rules.codec.history.files import history_records
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.yaml_file import read_yaml
from tests.support.conformance import load_schema


def connect(path: Path) -> None:
    KafkaConnection.load("a:1", {"FRAUD_KAFKA_PROPERTIES": str(path)})


def connect_with_certificate(path: Path) -> None:
    KafkaConnection.load("a:1", {"FRAUD_KAFKA_SECURITY_PROTOCOL": "SSL", "FRAUD_KAFKA_SSL_CA_LOCATION": str(path)})


def import_history(path: Path) -> None:
    list(history_records(path, load_schema("nullable")))


def download(path: Path) -> None:
    write_file(b"", path)


@pytest.mark.parametrize("use", [read_yaml, connect, connect_with_certificate, import_history, read_file, download])
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_missing_file_is_named_once(use: Callable[[Path], object], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "absent" / f"file.{suffix}"
    with pytest.raises(FraudError) as raised:
        use(path)
    assert str(raised.value).count(str(path)) == 1
    assert "No such file or directory" in str(raised.value)
