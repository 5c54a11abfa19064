"""The proof of a decision: the proofs of its alerts, and the check of its score and outcome.

The file is a zip with the seal of a proof. Each `ALERT_ID.proof.zip` in it is a whole proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec

from fraud_rules.errors import ProofInvalid
from fraud_rules.proof.document import Proof, check_format, read_file, sealed_zip, unzipped, write_file
from fraud_rules.proof.plain.judging import decide
from fraud_rules.proof.reading import PaymentScene
from fraud_rules.proof.verification import ProofVerdict, check_proof, check_seal, compared

_DECISION: Final = "decision.json"
_STATEMENT: Final = "thresholds.json"
_OF_ALERT: Final = ".proof.zip"
_STATED: Final = ("detectionTime",)
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class DecisionStatement(msgspec.Struct, frozen=True, rename="camel"):
    """What the proof of a decision says beside its alerts: the lowest scores of `DECLINE` and of `REVIEW`."""

    format: int
    product: str
    made_at: int
    decline: int
    review: int


class DecisionProof(msgspec.Struct, frozen=True):
    """The decision as it was written, and the proofs of its alerts."""

    statement: DecisionStatement
    decision: bytes
    alerts: Sequence[Proof]


@dataclass(frozen=True, slots=True)
class DecisionVerdict:
    """The decision, what a check found of its alerts by id, the weights of their rules, and each difference by name."""

    decision: dict[str, Any]
    alerts: dict[str, ProofVerdict]
    weights: dict[int, int]
    differences: Sequence[str]


def write_decision_file(proof: DecisionProof, sign: Any = None) -> bytes:
    """The bytes of the file. `sign` makes the public key and the signature of a digest, both in hex."""
    alerts = {f"{alert_id_of(each)}{_OF_ALERT}": write_file(each, sign) for each in proof.alerts}
    return sealed_zip({_DECISION: proof.decision, _STATEMENT: msgspec.json.encode(proof.statement), **alerts}, sign)


def alert_id_of(proof: Proof) -> str:
    """The id of the alert that a proof has."""
    found: str = _decode(proof.alert)["alertId"]
    return found


def read_decision_file(content: bytes) -> DecisionProof | None:
    """Read the parts of a file. None for the proof of an alert. Raises ProofInvalid."""
    texts = unzipped(content)
    if _DECISION not in texts:
        return None
    name = _STATEMENT
    try:
        check_format(texts[name])
        statement = msgspec.json.decode(texts[name], type=DecisionStatement)
    except (KeyError, msgspec.MsgspecError) as error:
        raise ProofInvalid(f"{name} is damaged: {error}") from error
    alerts = []
    for name in sorted({*texts} - {_DECISION, _STATEMENT}):
        try:
            check_seal(texts[name])
            alerts.append(read_file(texts[name]))
        except ProofInvalid as error:
            raise ProofInvalid(f"{name}: {error}") from error
    return DecisionProof(statement, texts[_DECISION], alerts)


def check_decision(proof: DecisionProof) -> DecisionVerdict:
    """Check the proofs of the alerts, and compute score and outcome again. Raises ProofInvalid for unreadable
    records."""
    try:
        decision = _decode(proof.decision)
        named = [each["alertId"] for each in decision["alerts"]]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise ProofInvalid(f"{_DECISION} is damaged: {error!r}") from error
    verdicts: dict[str, ProofVerdict] = {}
    differences: list[str] = []
    for alert in proof.alerts:
        verdict = check_proof(alert)
        name = verdict.scene.alert["alertId"]
        verdicts[name] = verdict
        differences += [f"alert {name}: {each}" for each in verdict.differences]
    if not named or sorted(verdicts) != sorted(named):
        raise ProofInvalid("the file has the proofs of other alerts than those of the decision")
    differences += _alert_faults(proof)
    weights, decided = _decided(proof, {name: verdicts[name].scene for name in named})
    differences += compared(decided, decision, _STATED, "decision")
    return DecisionVerdict(decision, verdicts, weights, differences)


def _alert_faults(proof: DecisionProof) -> Iterator[str]:
    """The alerts that count in no decision, and those of different payments."""
    statements = [each.statement for each in proof.alerts]
    if len({(each.topic, each.partition, each.offset) for each in statements}) != 1:
        yield "decision, alerts: they are of different payments"
    for each in statements:
        if each.order != "arrival":
            yield f"decision, alerts: a re-evaluation added the alert of rule {each.rule_id}"


def _decided(proof: DecisionProof, scenes: Mapping[str, PaymentScene]) -> tuple[dict[int, int], dict[str, Any]]:
    """The weights of the rules, and the decision that follows from its alerts. `scenes` has those in its order."""
    live = {name: each for name, each in scenes.items() if each.rule["ruleState"] == "ACTIVE"}
    rules = {each.rule["ruleId"]: each.rule for each in live.values()}
    weights, score, outcome = decide(rules, proof.statement.decline, proof.statement.review)
    alert = next(iter(scenes.values())).alert
    return weights, {
        "transactionId": alert["triggeringEvent"]["transactionId"],
        "score": score,
        "outcome": outcome,
        "alerts": [
            {"ruleId": each.rule["ruleId"], "ruleVersion": each.version, "alertId": name,
             "weight": weights[each.rule["ruleId"]]}
            for name, each in live.items()
        ],
        "eventTime": alert["eventTime"],
        "ingestionTime": alert["ingestionTime"],
        "transaction": alert["triggeringEvent"],
    }  # fmt: skip
