"""Creates ACLs on a cluster, and formats them for kafka-acls."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.access import Acl, Operation, Resource
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.topics import admin_client
from fraud_rules.runtime.retry import wait_for

_TYPES: Final = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    Resource.CLUSTER: ResourceType.CLUSTER,
}
_OPERATIONS: Final = {
    Operation.READ: ACLOperation.READ,
    Operation.WRITE: ACLOperation.WRITE,
    Operation.DESCRIBE_CONFIGS: ACLOperation.DESCRIBE_CONFIGS,
    Operation.CREATE: ACLOperation.CREATE,
    Operation.ALTER: ACLOperation.ALTER,
    Operation.ALTER_CONFIGS: ACLOperation.ALTER_CONFIGS,
}
_SHOWN_S: Final = 30.0
_POLL_S: Final = 0.05
_EVERYTHING: Final = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)


def apply_acls(kafka: KafkaConnection, acls: Sequence[Acl]) -> tuple[Sequence[Acl], Sequence[str]]:
    """Create the missing ACLs. Return them, and other ACLs of the same principals, which stay, as texts.

    Raises BrokerUnavailable, also if the cluster has no authorizer or the client may not change ACLs.
    """
    wanted = {_kafka_acl(acl): acl for acl in acls}
    with admin_client(kafka) as client:
        existing = _existing(client)
        missing = [each for each in wanted if each not in existing]
        failed = client.create_acls(missing)["failed"] if missing else []
        if failed:
            raise BrokerUnavailable(f"{len(failed)} ACLs were not created at {kafka}, the first is {failed[0]}")
        # A broker learns of new ACLs a little after the controller accepts them.
        fault = BrokerUnavailable(f"the broker at {kafka} does not show the new ACLs")
        wait_for(
            lambda: wanted.keys() <= set(_existing(client)), within_s=_SHOWN_S, every_s=_POLL_S, timed_out=lambda: fault
        )
    principals = {acl.principal for acl in acls}
    others = [each for each in existing if each.principal in principals and each not in wanted]
    return [wanted[each] for each in missing], sorted(map(_described, others))


def _existing(client: KafkaAdminClient) -> Sequence[ACL]:
    try:
        acls, _ = client.describe_acls(_EVERYTHING)
    except KafkaError as error:
        raise BrokerUnavailable(
            f"the ACLs cannot be read ({error}): use a principal that may change ACLs or, if clients may not, "
            "the provider's tools (fraud kafka acls print)"
        ) from error
    found: Sequence[ACL] = acls
    return found


def kafka_acls_lines(bootstrap: str, acls: Sequence[Acl]) -> Iterator[str]:
    """Commands of Kafka's kafka-acls.sh that create the ACLs. A command has the resources with equal operations."""
    by_resource = {
        key: tuple(acl.operation for acl in group)
        for key, group in groupby(acls, lambda acl: (acl.principal, acl.resource, acl.prefixed, acl.name))
    }
    commands: dict[tuple[str, Resource, bool, tuple[Operation, ...]], list[str]] = {}
    for (principal, resource, prefixed, name), operations in by_resource.items():
        commands.setdefault((principal, resource, prefixed, operations), []).append(name)
    for (principal, resource, prefixed, operations), names in commands.items():
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties", "--add"]
        words += ["--allow-principal", principal]
        for operation in operations:
            words += ["--operation", operation]
        for name in names:
            words += [f"--{resource}"] if resource is Resource.CLUSTER else [f"--{resource}", name]
        if prefixed:
            words += ["--resource-pattern-type", "prefixed"]
        yield shlex.join(words)


def _kafka_acl(acl: Acl) -> ACL:
    pattern = ACLResourcePatternType.PREFIXED if acl.prefixed else ACLResourcePatternType.LITERAL
    resource = ResourcePattern(_TYPES[acl.resource], acl.name, pattern)
    return ACL(acl.principal, "*", _OPERATIONS[acl.operation], ACLPermissionType.ALLOW, resource)


def _described(acl: ACL) -> str:
    resource = acl.resource_pattern
    what = f"{resource.resource_type.name} {resource.resource_name} ({resource.pattern_type.name})"
    return f"{acl.principal}: {acl.permission_type.name} {acl.operation.name} on {what}"
