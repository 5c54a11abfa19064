"""Checks a proof: its digest, signature, records and audit, and the alert, which the plain evaluator recomputes."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from fraud_rules.errors import ProofInvalid
from fraud_rules.proof.audit import audit_faults
from fraud_rules.proof.document import Proof, Seal, checksum, seal_of, unzipped
from fraud_rules.proof.plain.judging import judge, text_of
from fraud_rules.proof.reading import PaymentScene, cooling_alerts, read_scene
from fraud_rules.proof.signature import check_signature

_NAMESPACE: Final = uuid.UUID("6f0c9a52-2f5e-5b0c-9a53-8f6f7c1d2e40")
_PREVIOUS: Final = re.compile(r"previous\s*\(\s*(\w+)\s*\)", re.IGNORECASE)
_STATED: Final = ("suppressed", "detectionTime")
"""Members of an alert that no proof determines: they need all earlier alerts, and the detector's clock."""

_CORRECTED: Final = ("the cool-downs and marks of earlier corrected alerts",)
"""What the state of the re-evaluation had at the payment. Its alerts are those of the corrected end of the day before,
which are published in part only."""


@dataclass(frozen=True, slots=True)
class ProofVerdict:
    """What a check found: what was checked, what was not recomputed and why, and each difference by name."""

    scene: PaymentScene
    checked: Sequence[str]
    stated: Sequence[str]
    differences: Sequence[str]

    @property
    def holds(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


def check_seal(content: bytes, trusted: str | None = None) -> Seal:
    """Check the digest of a file and its signature, which must be that of the `trusted` public key (in hex) if there is
    one. Raises ProofInvalid."""
    seal, digest = seal_of(content)
    if digest != seal.sha256:
        unzipped(content)  # names the part, if it cannot be read
        raise ProofInvalid(
            f"the digest of the file is {digest}, but its end says {seal.sha256}: a byte outside of its parts, in the "
            "structure of the zip, was changed"
        )
    check_signature(seal, trusted)
    return seal


def check_proof(proof: Proof) -> ProofVerdict:
    """Check the parts of a proof against each other. Raises ProofInvalid for records that cannot be read."""
    differences = [f"payment {each.partition}-{each.offset}: its bytes have another CRC-32"
                   for each in proof.payments if checksum(each.value.value) != each.crc32]  # fmt: skip
    if differences:
        raise ProofInvalid("; ".join(differences[:5]))
    scene = read_scene(proof)
    checked = ["payments", "rules", "audit"] if proof.audit else ["payments", "rules"]
    differences += [*_record_faults(proof, scene), *audit_faults(proof, scene.rule)]
    stated = [*scene.stated, *_STATED, *(_CORRECTED if proof.statement.order == "event" else ())]
    if scene.is_recomputable and proof.statement.is_retracted:
        if not judge(scene.rule, scene.plain)[0] and not cooling_alerts(scene):
            differences.append("retraction: the rule holds in the order of event times, and no cool-down covers it")
        checked.append("retraction")
    elif scene.is_recomputable:
        computed, unknown = _recomputed(scene)
        stated += unknown
        differences += list(compared(computed, scene.alert, stated))
        checked.append("alert")
    if proof.statement.restrictions:
        differences += list(_restriction_faults(proof, scene))
        checked.append("restriction")
    return ProofVerdict(scene, checked, stated, differences)


def _recomputed(scene: PaymentScene) -> tuple[dict[str, Any], list[str]]:
    """The members of the alert that the records determine, and the names of those that they do not."""
    fault, _, alert = judge(scene.rule, scene.plain)
    if fault:
        return {"violatedRule": f"{fault} does not hold"}, []
    e, key = scene.plain.rows[-1], dict(zip(scene.grouping, scene.plain.key, strict=True))
    history_ms, first_ms, previous = scene.history_start_ms, alert.pop("firstMs"), alert.pop("previous")
    texts = [
        scene.rule.get("when"),
        scene.rule.get("limit"),
        *(c.get("limit") for c in scene.rule.get("conditions", ())),
    ]
    names = {scene.plain.fields[name].name for text in texts for name in _PREVIOUS.findall(str(text))}
    if names:
        shown = {name: _shown(previous[name]) for name in ("transactionId", *names)} if previous is not None else None
        alert["previous"] = shown
    for kind, versions in (("lists", scene.list_versions), ("maps", scene.map_versions)):
        if versions:
            alert[kind] = versions
    role = {} if scene.role is None else {"role": scene.role}
    alert |= {
        **role,
        "ruleId": scene.rule["ruleId"],
        "ruleVersion": scene.version,
        "shadow": scene.rule["ruleState"] == "SHADOW",
        "violatedRule": scene.rule,
        "key": key,
        "triggeringEvent": {name: e[name] for name in scene.fields if e[name] is not None},
        "windowEnd": e["eventTime"],
        "eventTime": e["eventTime"],
        "ingestionTime": scene.append_ms,
        "alertId": _alert_id(scene.rule["ruleId"], scene.version, key, e["transactionId"], scene.role),
    }
    unknown = ["windowComplete"]
    if history_ms is not None:
        complete = first_ms is None or first_ms >= history_ms
        if not (complete and scene.plain.named):  # the outcome of a named rule may be incomplete
            alert["windowComplete"], unknown = complete, []
    return alert, unknown


def _shown(value: Any) -> Any:
    return text_of(value) if isinstance(value, Decimal) else value


def compared(
    computed: Mapping[str, Any], written: Mapping[str, Any], stated: Sequence[str], kind: str = "alert"
) -> Iterator[str]:
    """The members that differ between the recomputed document and the one that was written, which `kind` names."""
    for name in sorted({*computed, *written} - {*stated}):
        mine, theirs = _plain(computed.get(name)), _plain(written.get(name))
        if mine != theirs:
            yield f"{kind}, {name}: the records give {_brief(mine)}, the {kind} says {_brief(theirs)}"


def _plain(value: Any) -> Any:
    """A value with numbers of one type, so that 1.0 and 1 are equal."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return Fraction(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


def _brief(value: Any) -> str:
    text = json.dumps(value, default=text_of)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _alert_id(rule_id: int, version: int, key: Mapping[str, Any], transaction_id: Any, role: str | None) -> str:
    name = _json([rule_id, version, sorted(key.items()), transaction_id, *(() if role is None else (role,))])
    return str(
        uuid.UUID(bytes=hashlib.sha1(_NAMESPACE.bytes + name.encode(), usedforsecurity=False).digest()[:16], version=5)
    )


def _json(value: Any) -> str:
    """Compact JSON, with decimals as numbers with all their digits."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_json, value))}]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _record_faults(proof: Proof, scene: PaymentScene) -> Iterator[str]:
    """What the records say against the rule that was in force, the batches and the bounds."""
    statement = proof.statement
    batches = {each.number: each for each in proof.batches}
    for payment in proof.payments:
        batch, at = batches.get(payment.batch), str(payment.partition)
        if batch is None or not batch.starts.get(at, 0) <= payment.offset < batch.ends.get(at, 0):
            yield f"payment {payment.partition}-{payment.offset}: batch {payment.batch} has not read it"
    if scene.remark:
        yield f"payment {statement.partition}-{statement.offset}: {scene.remark}, so no rule is evaluated for it"
    if scene.plain.rows[-1]["eventTime"] < statement.bounds.watermark:
        yield "bounds, watermark: the payment is late, so no rule is evaluated for it"
    if scene.rule["ruleState"] not in ("ACTIVE", "SHADOW"):
        yield f"rules, {scene.version}: the rule is {scene.rule['ruleState']}, so it writes no alert"
    if statement.order == "arrival":
        yield from _cooldown_faults(scene)


def _cooldown_faults(scene: PaymentScene) -> Iterator[str]:
    for alert in cooling_alerts(scene):
        yield f"earlier alerts: {alert['alertId']} began a cool-down that lasts beyond the payment"


def _restriction_faults(proof: Proof, scene: PaymentScene) -> Iterator[str]:
    """What the records of the restriction say against the alert, from which a restriction follows."""
    if scene.rule.get("action") != "RESTRICT" or scene.rule["ruleState"] != "ACTIVE":
        yield f"restriction: rule {scene.rule['ruleId']} does not restrict"
    alert = scene.alert
    members = {"key": alert["key"], "since": alert["eventTime"], "alertId": alert["alertId"], "ruleId": alert["ruleId"]}
    for record in scene.restrictions:
        yield from compared(members, record, ("lifted", "liftedBy"), "restriction")
