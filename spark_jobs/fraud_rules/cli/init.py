"""Begins an installation: `fraud create` writes its folder, `fraud init` proposes the schema of its payments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.options import ASKS, Kafka
from fraud_rules.configuration.project import HOME_VARIABLE, Project
from fraud_rules.configuration.shipped import create_installation
from fraud_rules.errors import InputInvalid, TopicNotUnderstood

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fraud_rules.discovery.sample import SampleRecord
    from fraud_rules.discovery.understanding import Understanding
    from fraud_rules.kafka.connection import KafkaConnection
    from fraud_rules.model.declared.field_source import Path as FieldPath
    from fraud_rules.model.declared.record_format import FormatSettings

_SHOWN = 10


def create(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the installation.")]) -> None:
    """Write the configuration of a new installation: topics, schema, settings, seed rules.

    Each component of the installation reads it: the commands in this folder, the others with FRAUD_HOME.

    \b
    Examples:
      fraud create /opt/fraud-rules
    """
    root = folder.resolve()
    print(f"written: {create_installation(root)}")
    print(f"next: export {HOME_VARIABLE}={root}, then describe your payments: fraud init, docs/connect.md")


def init(
    kafka: Kafka,
    topic: Annotated[str | None, typer.Option("--from-topic", metavar="TOPIC", help="A topic with payments.")] = None,
    file: Annotated[Path | None, typer.Option("--from-file", metavar="FILE", help="A file: a record a line.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write.", show_default="config/schema.yaml")
    ] = None,
    identity: Annotated[
        str | None, typer.Option("--id", metavar="PATH", help="The member with the payment's id.", show_default="found")
    ] = None,
    event_time: Annotated[
        str | None, typer.Option("--time", metavar="PATH", help="The member with its time.", show_default="found")
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL", help="The registry with the schemas of the records.")
    ] = None,
    schema_file: Annotated[
        Path | None,
        typer.Option("--schema-file", metavar="FILE", help="Avro's .avsc, or a descriptor set of Protobuf."),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="NAME", help="The message type in the descriptor set.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; replace the file.")] = False,
) -> None:
    """Read up to 10,000 payments and propose a schema for them.

    The command recognizes the format, the envelope, and the type, unit and place of each field. It shows ten payments
    as the detector will read them, and names what the records do not prove. The exit code is 73 if a person must choose
    the id or the time.

    \b
    Examples:
      fraud init --from-topic payments
      fraud init --from-topic payments --time payment.bookedAt --yes
      fraud init --from-topic payments --registry https://registry:8081
      fraud init --from-file export.jsonl --output schema.yaml
    """
    from fraud_rules.discovery.schema_file import schema_text

    sample = _sample(kafka, topic, file)
    target = output or Project.find().config / "schema.yaml"
    keys = _format_keys(registry, schema_file, message)
    found = _understand(sample, _encoding(keys, registry), {"id": identity, "time": event_time}, asks=ASKS and not yes)
    _show(found, sample)
    if target.exists() and not yes and not (ASKS and typer.confirm(f"replace {target}?")):
        raise InputInvalid(f"{target} exists: pass --yes to replace it, or --output to write another file")
    source = f"topic {topic}" if topic else str(file)
    head = (f"The fields of the payments in {source}, proposed by `fraud init` from {len(sample)} records.",)
    written = {**found.encoding.document(), **keys}
    written.pop("schema_content", None)
    text = schema_text(found.proposal, found.recognized.envelope, head, written)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputInvalid(f"{target} cannot be written: {error.strerror}") from error
    print(f"written: {target}")
    _next_steps(found, topic)


def _format_keys(registry: str | None, schema_file: Path | None, message: str | None) -> dict[str, object]:
    """The keys of a schema file that the options stand for."""
    if schema_file is None:
        return {}
    if registry is not None:
        raise InputInvalid("name either --registry or --schema-file")
    keys: dict[str, object] = {"format": "avro" if schema_file.suffix == ".avsc" else "protobuf"}
    keys["schema_file"] = str(schema_file.resolve())
    return keys if message is None else {**keys, "message": message}


def _encoding(keys: Mapping[str, object], registry: str | None) -> FormatSettings:
    """The format that the keys declare; without a format, that of the registry's schemas."""
    from fraud_rules.model.declared.record_format import FormatSettings, parse_format

    faults: list[str] = []
    if registry is not None:
        checked = parse_format({"format": "avro", "registry": {"url": registry}}, None, faults)
        encoding = FormatSettings(registry=checked.registry)
    else:
        encoding = parse_format(keys, Path.cwd(), faults)
    if faults:
        raise InputInvalid("; ".join(faults))
    return encoding


def _sample(kafka: KafkaConnection, topic: str | None, file: Path | None) -> list[SampleRecord]:
    from fraud_rules.discovery.sample import of_file, of_topic
    from fraud_rules.kafka.reachable import require_broker

    if (topic is None) == (file is None):
        raise InputInvalid("name either --from-topic TOPIC or --from-file FILE")
    if file is not None:
        return of_file(file)
    require_broker(kafka)
    return of_topic(kafka, str(topic))


def _understand(
    sample: Sequence[SampleRecord], encoding: FormatSettings, chosen: dict[str, str | None], *, asks: bool
) -> Understanding:
    """Understand a sample. Ask for the id and the time if the records do not show them."""
    from fraud_rules.discovery.understanding import understand

    while True:
        try:
            answers = {"chosen_id": _path(chosen["id"]), "chosen_time": _path(chosen["time"])}
            return understand(sample, encoding=encoding, **answers)
        except TopicNotUnderstood as error:
            if not asks or not error.missing or chosen[error.missing] is not None:
                raise
            print(error)
            chosen[error.missing] = typer.prompt(f"the path of the {error.missing}")


def _path(text: str | None) -> FieldPath | None:
    from fraud_rules.model.declared.field_source import parse_path

    if text is None:
        return None
    path = parse_path(text)
    if path is None:
        raise InputInvalid(f"{text!r} is not a path such as payment.amount.value")
    return path


def _show(found: Understanding, sample: Sequence[SampleRecord]) -> None:
    from fraud_rules.cli.display.history_preview import shown_payment
    from fraud_rules.discovery.understanding import decode_sample
    from fraud_rules.runtime.clock import now_ms

    recognized, schema = found.recognized, found.schema
    envelope = "" if recognized.envelope == "none" else f" in {recognized.envelope} envelopes"
    print(f"{len(recognized.trees)} payments of {len(sample)} records: {recognized.shape}{envelope}")
    decoded = decode_sample(sample, schema, now_ms())
    for i in range(min(_SHOWN, len(decoded.batch))):
        print(f"  {shown_payment(decoded.batch.row(i, schema), schema)}")
    if decoded.rejects:
        first = decoded.rejects[0]
        print(f"  {len(decoded.rejects)} records would go to quarantine, the first: {first.reason}: {first.detail}")
    for reason in found.proposal.left_out:
        print(f"left out: {reason}")
    for doubt in found.proposal.doubts:
        print(f"check: {doubt}")


def _next_steps(found: Understanding, topic: str | None) -> None:
    from fraud_rules.model.schema import FieldType

    fields = [each.field for each in found.proposal.fields]
    amount = next((each.name for each in fields if each.type is FieldType.DECIMAL), None)
    key = next(iter(found.proposal.keys), None)
    if topic:
        print(f"next: below `transactions:` in config/topics.yaml, write only `name: {topic}` and `external: true`")
        print("then: fraud kafka topics apply, fraud kafka topics check")
    if amount and key:
        print(f"a rule to begin with: the sum of {amount} per {key} over 20 minutes, see docs/connect.md")
