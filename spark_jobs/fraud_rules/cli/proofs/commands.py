"""`fraud prove`, `fraud verify` and `fraud why`: a proof of an alert, its check, and the reason for no alert."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from fraud_rules.batch.proof.budget import MOST_RECORDS
from fraud_rules.cli.archive import Archive, archive_store
from fraud_rules.cli.configured import load_context
from fraud_rules.cli.display.output import printable
from fraud_rules.cli.options import Kafka, Url, control_plane, time_ms_of
from fraud_rules.errors import InputInvalid, ProofInvalid
from fraud_rules.kafka.connection import KafkaConnection

if TYPE_CHECKING:
    from fraud_rules.batch.proof.written import ProofSource

SigningKey = Annotated[
    Path | None,
    typer.Option(
        "--key",
        envvar="FRAUD_PROOF_KEY",
        show_envvar=True,
        metavar="FILE",
        help="Sign the proof with this Ed25519 key (PEM).",
        show_default="no signature",
    ),
]


MaxRecords = Annotated[
    int, typer.Option("--max-records", min=1, help="Most records to read, with about 1.3 KB of memory for each.")
]


def prove(
    kafka: Kafka,
    name: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the alert, or of the payment of a decision.", show_default=False)
    ],
    decision: Annotated[
        bool, typer.Option("--decision", help="Prove the newest decision about the payment ID.")
    ] = False,
    retraction: Annotated[
        bool, typer.Option("--retraction", help="Prove that a re-evaluation was right to retract the alert.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write.", show_default="ID.proof.zip")
    ] = None,
    key: SigningKey = None,
    url: Url = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Read the topics here; the proof lacks the rows of the audit log.")
    ] = False,
    archive: Archive = None,
    max_records: MaxRecords = MOST_RECORDS,
) -> None:
    """Write the proof of an alert: the payments of its windows, its rule, and all that its value follows from.

    The control plane makes it, with the rows of the audit log about the rule. With --direct, or without a control
    plane, the command reads the topics itself. `fraud verify` checks the file on any machine. docs/proof.md describes
    it. The exit code of --direct is 75 if the topics lack the alert, its payment or its rule.

    The proof of an alert that restricts has the restriction. The proof of a decision has the proofs of its alerts.

    \b
    Examples:
      fraud prove 2b7c1c5e-6f0e-5d1c-8a6b-0d6f8e0f6a11 --output proof.zip
      fraud prove 4711 --decision
    """
    from fraud_rules.proof.decision import read_decision_file, write_decision_file
    from fraud_rules.proof.document import read_file, write_file
    from fraud_rules.proof.signature import signer_of

    sign = None if key is None else signer_of(key)
    client = control_plane(url, direct=direct)
    if client is None:
        content = _direct_proof(name, _source(kafka, archive, max_records), decision=decision, retraction=retraction)
    elif decision:
        content = client.text("/decisions/proof", transaction=name)
    else:
        content = client.text(f"/alerts/{quote(name, safe='')}/proof", retraction=retraction or None)
    whole = read_decision_file(content)
    proofs = [read_file(content)] if whole is None else whole.alerts
    if sign is not None:
        content = write_file(proofs[0], sign) if whole is None else write_decision_file(whole, sign)
    path = Path(f"{quote(name, safe='')}.proof.zip") if output is None else output
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputInvalid(f"{path} cannot be written: {error.strerror}") from error
    payments, rules = sum(len(each.payments) for each in proofs), sum(len(each.rules) for each in proofs)
    print(f"{payments} payments and {rules} rule records written to {path}")
    for each in dict.fromkeys(missing for proof in proofs for missing in proof.statement.missing):
        sys.stderr.write(f"missing: {each}\n")


def _direct_proof(name: str, source: ProofSource, *, decision: bool, retraction: bool) -> bytes:
    from fraud_rules.batch.proof.topics import find_decision, prove_decision, prove_from_topics
    from fraud_rules.proof.decision import write_decision_file
    from fraud_rules.proof.document import write_file
    from fraud_rules.runtime.clock import now_ms

    if decision:
        return write_decision_file(prove_decision(find_decision(name, source), source, now_ms()))
    return write_file(prove_from_topics(name, source, now_ms(), retraction=retraction))


def _source(kafka: KafkaConnection, archive: str | None, most_records: int) -> ProofSource:
    from fraud_rules.batch.proof.written import ProofSource
    from fraud_rules.kafka.reachable import require_broker

    require_broker(kafka)
    context = load_context()
    place = archive_store(archive, context).root
    return ProofSource(kafka, place, context.schema, context.settings, most_records)


def verify(
    file: Annotated[Path, typer.Argument(help="The proof.", show_default=False)],
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Require a signature of this public key (PEM).")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of payments to print.")] = 50,
) -> None:
    """Check a proof: digest, signature, records and audit, and the alert as a plain evaluator computes it again.

    The proof of a decision has those of its alerts; score and outcome follow from them.

    The command needs no configuration, no Kafka and no detector. It prints the payments and the arithmetic. The exit
    code is 74 if something differs; the message names it.

    \b
    Examples:
      fraud verify proof.zip
      fraud verify proof.zip --key bank.pem --rows 1000
    """
    from fraud_rules.proof.decision import check_decision, read_decision_file
    from fraud_rules.proof.document import read_file
    from fraud_rules.proof.printing import decision_lines, verdict_lines
    from fraud_rules.proof.signature import fingerprint, read_public_key
    from fraud_rules.proof.verification import check_proof, check_seal

    trusted = None if key is None else read_public_key(key)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputInvalid(f"{file} cannot be read: {error.strerror}") from error
    seal, decision = check_seal(content, trusted), read_decision_file(content)
    if decision is None:
        proof = read_file(content)
        verdict = check_proof(proof)
        lines, differences = verdict_lines(proof, verdict, rows), verdict.differences
    else:
        decided = check_decision(decision)
        lines, differences = decision_lines(decision, decided, rows), decided.differences
    for line in lines:
        print(printable(line))
    print(f"sha256 {seal.sha256}")
    print(f"signed by the key {fingerprint(seal.public_key)}" if seal.public_key else "not signed")
    if differences:
        raise ProofInvalid("; ".join(differences))
    print("the proof holds")


def why(
    kafka: Kafka,
    transaction_id: Annotated[str, typer.Argument(help="Id of the payment.", show_default=False)],
    rule: Annotated[
        int | None, typer.Option("--rule", min=1, help="Only this rule.", show_default="all rules in force")
    ] = None,
    since: Annotated[
        str, typer.Option("--since", help="Earliest arrival: 30m, 24h, 7d ago, or for example 2026-11-20T12:00 (UTC).")
    ] = "24h",
    rows: Annotated[int, typer.Option("--rows", min=1, help="With --rule: number of payments to print.")] = 50,
    archive: Archive = None,
    max_records: MaxRecords = MOST_RECORDS,
) -> None:
    """Say why a payment has no alert: for each rule, the first check that it did not pass, and the value then.

    The rules are those in force when the payment arrived. With --rule, the command also prints the payments and the
    arithmetic. The exit code is 75 if the topic lacks the payment.

    \b
    Examples:
      fraud why 4711
      fraud why 4711 --rule 3 --since 7d
    """
    from fraud_rules.batch.proof.topics import answers_from_topics
    from fraud_rules.proof.printing import arithmetic_lines, rule_lines

    source = _source(kafka, archive, max_records)
    answers = answers_from_topics(transaction_id, rule, source, time_ms_of(since))
    for each in answers:
        version = "" if each.version is None else f", version {each.version}"
        role = "" if each.role is None else f", role {each.role}"
        said = "; ".join([each.outcome.value, *([each.detail] if each.detail else [])])
        counted = "" if each.count is None else f": value {each.value} of {each.count} payments"
        limit = "" if each.limit is None else f", limit {each.limit}"
        print(f"rule {each.rule_id}{version}{role}: {said}{counted}{limit}")
        if rule is not None and each.scene is not None:
            for line in [*rule_lines(each.scene), *arithmetic_lines(each.scene, rows)]:
                print(f"  {line}")
    if not answers:
        print("no rule was in force when the payment arrived")
