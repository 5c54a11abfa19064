"""`fraud erase`: erases a person, and writes the certificate."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from fraud_rules.cli.archive import Archive, archive_store
from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.options import Output, Url, connect
from fraud_rules.cli.proofs.commands import SigningKey
from fraud_rules.errors import InputInvalid
from fraud_rules.runtime.clock import now_ms, utc_text

if TYPE_CHECKING:
    from fraud_rules.batch.archive.store import ArchiveStore
    from fraud_rules.proof.certificate import Certificate


def erase(
    payer: Annotated[str, typer.Option("--payer", metavar="ID", help="Id of the person.", show_default=False)],
    url: Url = None,
    folder: Archive = None,
    key: SigningKey = None,
    output: Output = None,
) -> None:
    """Erase a person from the control plane's store and from the archive, and write a certificate.

    The id is compared with all fields that have `display: masked` in config/schema.yaml. The command needs the role
    admin. A repetition erases what came since, or what an interrupted run left. The certificate names what expires by
    itself, and what stays. docs/privacy.md has the places.

    \b
    Examples:
      fraud erase --payer 4711 --output erased.json
    """
    from fraud_rules.batch.archive.erasing import erase_person, reports_with
    from fraud_rules.proof.certificate import Certificate, expiring_topics, sealed
    from fraud_rules.proof.signature import signer_of

    sign = None if key is None else signer_of(key)
    context, at_ms = load_context(), now_ms()
    store = archive_store(folder, context)
    client = connect(url)
    found, _ = client.change("POST", "/erasures", {"value": payer})  # first, because it checks the role
    archived = erase_person(store, found["fields"], payer, at_ms)
    states = _drop_states(store)
    certificate = Certificate(
        person=found["person"],
        erased_at=utc_text(at_ms),
        fields=found["fields"],
        erased={f"store {name}": rows for name, rows in found["erased"].items()}
        | {f"archive {name}": rows for name, rows in archived.items()},
        lists=found["lists"],
        maps=found["maps"],
        expiring=expiring_topics(_topics(context), at_ms),
        states=states,
        reports=reports_with(store, payer),
    )
    content = sealed(certificate, sign)
    if output is None:
        sys.stdout.write(content.decode() + "\n")
    else:
        try:
            output.write_bytes(content)
        except OSError as error:
            raise InputInvalid(f"{output} cannot be written: {error.strerror}; the person is erased") from error
        print(f"{sum(certificate.erased.values())} rows erased; the certificate is in {output}")
    client.change("POST", "/erasures/certificates", msgspec.json.decode(content))
    for line in _kept(certificate):
        sys.stderr.write(f"kept: {line}\n")


def _kept(certificate: Certificate) -> Iterator[str]:
    """What keeps the id, and how to remove it."""
    for kind, names in (("list", certificate.lists), ("map", certificate.maps)):
        for name in names:
            yield f"{kind} {name}: `fraud {kind}s remove {name} ID`; the rule log keeps the history"
    for each in certificate.expiring:
        if each.until is None:
            yield f"{each.place}: declare a `retention` in config/topics.yaml, then `fraud kafka topics apply`"
    for folder in certificate.reports:
        yield f"archive {folder}: delete the folder"


def _drop_states(store: ArchiveStore) -> list[str]:
    """Delete the saved states that can have rows of erased people, and name their days: all from the first one that
    lost rows. The next night computes them again.
    """
    from fraud_rules.batch.reevaluation.daystore import DayStore
    from fraud_rules.model.day import Day

    erased = store.latest().erased
    return [str(day) for day in DayStore(store).drop_states(Day(erased[0]))] if erased else []


def _topics(context: CommandContext) -> Iterator[tuple[str, int | None]]:
    """The names and retentions of the declared topics with ids of people."""
    from fraud_rules.configuration.personal_topics import PERSONAL_TOPICS
    from fraud_rules.kafka.declared import load_topics

    names = {getattr(context.settings.topics, role) for role in PERSONAL_TOPICS}
    for topic in load_topics(context.project.config / "topics.yaml"):
        if topic.name in names:
            yield topic.name, topic.retention_ms
