"""Secrets: encoders refuse them, texts hide them, and Spark's workers still receive them."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict
from pprint import pformat
from typing import Any

import msgspec
import pytest
import yaml
from pyspark import cloudpickle
from rich.pretty import pretty_repr

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.secret import Secrets

MARKER = "marker-5d1e"
KAFKA = KafkaConnection.of("a:1", {"sasl.username": "fraud", "sasl.password": MARKER})


@pytest.mark.parametrize("value", [KAFKA, KAFKA.security], ids=["connection", "security"])
@pytest.mark.parametrize("show", [str, repr, "{}".format, "{!r:>9}".format, pformat, pretty_repr, lambda x: f"{[x]}"])
def test_a_secret_is_not_shown(value: object, show: Callable[[object], str]) -> None:
    assert MARKER not in show(value)


@pytest.mark.parametrize("value", [KAFKA, KAFKA.security, asdict(KAFKA)], ids=["connection", "security", "dict"])
@pytest.mark.parametrize(
    "encode",
    [
        msgspec.json.encode, msgspec.msgpack.encode, msgspec.yaml.encode, msgspec.to_builtins, json.dumps,
        yaml.safe_dump, list, dict,
    ],
)  # fmt: skip
def test_every_encoder_refuses_a_secret(value: Any, encode: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, yaml.representer.RepresenterError)):
        raise AssertionError(encode(value if encode not in (list, dict) else KAFKA.security))


def test_an_encoder_that_falls_back_on_text_writes_no_value() -> None:
    assert MARKER not in json.dumps(asdict(KAFKA), default=str)


@pytest.mark.parametrize(
    "travel", [copy.copy, copy.deepcopy, *(lambda x, p=p: p.loads(p.dumps(x)) for p in (pickle, cloudpickle))]
)
def test_a_secret_reaches_workers_unchanged(travel: Callable[[KafkaConnection], KafkaConnection]) -> None:
    there = travel(KAFKA)
    assert there == KAFKA
    assert there.confluent({})["sasl.password"] == MARKER


def test_a_secret_is_an_immutable_value() -> None:
    with pytest.raises(AttributeError):
        KAFKA.security._values = ()
    assert Secrets({"a": "1"}) == Secrets([("a", "1")]) != Secrets({"a": "2"})
    assert len({Secrets({"a": "1"}), Secrets({"a": "1"})}) == 1
