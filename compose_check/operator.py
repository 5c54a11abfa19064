"""The operator of the check: uses Kafka from outside the containers, with the operator's rights only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.connection import KafkaConnection

__all__ = ["OPERATOR_PASSWORD", "Operator"]

OPERATOR_PASSWORD = "FRAUD_KAFKA_OPERATOR_PASSWORD"  # noqa: S105 - the name of a variable
_STATUS_S = 180.0


@dataclass(frozen=True, slots=True)
class Operator:
    """Kafka on a port of this machine, as the user `fraud-operator`."""

    port: int
    password: str
    project: Project

    @property
    def kafka(self) -> KafkaConnection:
        """The connection of a client."""
        return KafkaConnection.load(self._bootstrap, self._login)

    def status(self) -> tuple[dict[str, Any], bool]:
        """The answer of `fraud status --json`, and whether the detector evaluates payments."""
        environ = {
            **os.environ,
            **self._login,
            "FRAUD_BOOTSTRAP": self._bootstrap,
            "FRAUD_HOME": str(self.project.root),
        }
        command = [str(Path(sys.executable).with_name("fraud")), "status", "--json"]
        try:
            done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_STATUS_S, check=False)
        except subprocess.TimeoutExpired:
            return {"error": f"fraud status has not ended within {_STATUS_S:g} s"}, False
        return _document(done.stdout) or {"error": done.stderr[-500:]}, done.returncode == 0

    @property
    def _bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _login(self) -> dict[str, str]:
        return {
            "FRAUD_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "FRAUD_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "FRAUD_KAFKA_SASL_USERNAME": "fraud-operator",
            "FRAUD_KAFKA_SASL_PASSWORD": self.password,
        }


def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
