"""`fraud kafka acls`: Kafka's ACLs and SCRAM users of all components, from the table in `kafka.access`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import Kafka, command_group
from fraud_rules.errors import InputInvalid
from fraud_rules.kafka.transactional_ids import CONTROL_PLANE_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fraud_rules.kafka.access import Acl, KafkaComponent

app = command_group(
    "Kafka's ACLs and users: one principal per component, with its topics, groups and transactional ids."
)

Principals = Annotated[
    list[str] | None,
    typer.Option(
        "--principal",
        metavar="COMPONENT=PRINCIPAL",
        help="The principal of a component. Repeat the option for several components.",
        show_default="User:fraud-COMPONENT",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="COMPONENT", help="Only this component. Repeat the option for several components."),
]
ControlPlane = Annotated[
    str, typer.Option("--control-plane", help="The `name` in config/control-plane.yaml: a transactional id.")
]


@app.command(name="print")
def print_lines(
    kafka: Kafka, principal: Principals = None, only: Only = None, control_plane: ControlPlane = CONTROL_PLANE_NAME
) -> None:
    """Print the commands of Kafka's kafka-acls.sh that create the ACLs. Needs no broker.

    \b
    Examples:
      fraud kafka acls print --bootstrap kafka:9092
      fraud kafka acls print --only detector --principal detector=User:CN=detector
    """
    from fraud_rules.kafka.acl_admin import kafka_acls_lines

    for line in kafka_acls_lines(kafka.bootstrap, _acls(principal, only, control_plane)):
        print(line)


@app.command()
def apply(
    kafka: Kafka, principal: Principals = None, only: Only = None, control_plane: ControlPlane = CONTROL_PLANE_NAME
) -> None:
    """Create the missing ACLs, as a principal that may change ACLs. Other ACLs stay; the command names them.

    \b
    Example:
      FRAUD_KAFKA_PROPERTIES=admin.properties fraud kafka acls apply --bootstrap kafka:9092
    """
    from fraud_rules.kafka.acl_admin import apply_acls
    from fraud_rules.kafka.reachable import require_broker

    require_broker(kafka)
    acls = _acls(principal, only, control_plane)
    created, others = apply_acls(kafka, acls)
    for acl in created:
        print(f"created   {acl}")
    for other in others:
        print(f"other     {other}")
    print(f"{len(created)} ACLs created, {len(acls) - len(created)} unchanged, {len(others)} others")


@app.command()
def users(kafka: Kafka, only: Only = None) -> None:
    """Create the SCRAM users fraud-COMPONENT, as a principal that may change users.

    The password of a user is in FRAUD_KAFKA_<COMPONENT>_PASSWORD. It replaces the former one of an existing user.

    \b
    Examples:
      FRAUD_KAFKA_PROPERTIES=admin.properties fraud kafka acls users --bootstrap kafka:9092
      fraud kafka acls users --only agent
    """
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.kafka.scram_users import create_users, passwords_of

    passwords = passwords_of(_components(only), os.environ)
    require_broker(kafka)
    create_users(kafka, passwords)
    for user in passwords:
        print(f"{user} has its password")


def _acls(principals: list[str] | None, only: list[str] | None, control_plane: str) -> Sequence[Acl]:
    from fraud_rules.kafka.access import acls_of

    context = load_context()
    return acls_of(context.settings.topics, context.settings.detector, _principals(principals, only), control_plane)


def _principals(pairs: list[str] | None, only: list[str] | None) -> Mapping[KafkaComponent, str]:
    from fraud_rules.kafka.scram_users import user_of

    named = dict(_named(each) for each in pairs or [])
    return {component: named.get(component, f"User:{user_of(component)}") for component in _components(only)}


def _components(only: list[str] | None) -> list[KafkaComponent]:
    from fraud_rules.kafka.access import KafkaComponent

    return [_component(each) for each in only] if only else list(KafkaComponent)


def _named(text: str) -> tuple[KafkaComponent, str]:
    name, separator, principal = text.partition("=")
    if not separator or ":" not in principal:
        raise InputInvalid(f"{text!r} must be COMPONENT=PRINCIPAL, such as detector=User:me")
    return _component(name), principal


def _component(name: str) -> KafkaComponent:
    from fraud_rules.kafka.access import KafkaComponent

    try:
        return KafkaComponent(name)
    except ValueError as error:
        raise InputInvalid(f"{name!r} is no component; the components are {', '.join(KafkaComponent)}") from error
