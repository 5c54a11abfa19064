"""Creates and changes topics as declared, in three phases: observe, plan, apply.

A plan is a value. Each step creates a topic, changes it, or refuses a change that would lose records or alter the
meaning of existing ones. If a plan contains such a step, or the cluster refuses a setting, `apply` changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from fraud_rules.errors import BrokerUnavailable, ConfigError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.declared import TIMESTAMP_TYPE, Topic
from fraud_rules.kafka.managed.unsupported import (
    UnsupportedSetting,
    creation_faults,
    topic_request,
    unsupported_in_change,
    unsupported_in_creations,
)
from fraud_rules.runtime.retry import wait_for

_TIMEOUT_MS = 30_000
_CONNECT_TIMEOUT_MS = 10_000
_POLL_S = 0.05
_RETENTION = "retention.ms"
_PARTITIONS = "partitions"

_EXTERNAL = "an external topic: its owner changes it"

# Changes that delete records, or give the times in existing records another meaning.
_REFUSED = {
    "cleanup.policy": "would delete records by another rule",
    TIMESTAMP_TYPE: "would change the meaning of the records' times",
}


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """An existing topic. `settings` has the current values of the declared settings."""

    name: str
    partitions: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that differs from its declaration. `fault` is the reason not to change it, empty if there is none."""

    setting: str
    actual: str
    declared: str
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.setting} is {self.actual}, declared {self.declared}" + (f" ({self.fault})" if self.fault else "")


class StepKind(StrEnum):
    """The kinds of steps."""

    CREATE = "create"
    UNCHANGED = "unchanged"
    CHANGE = "change"
    REFUSE = "refuse"
    SKIP = "skip"

    @property
    def done(self) -> str:
        """The past participle of the step, for output."""
        words = {"create": "created", "change": "changed", "refuse": "refused", "skip": "skipped"}
        return words.get(self.value, self.value)


@dataclass(frozen=True, slots=True)
class TopicStep:
    """The step for one topic. `unsupported` are the parts that the step leaves, because the cluster refuses them."""

    topic: Topic
    kind: StepKind
    differences: tuple[SettingDifference, ...] = ()
    unsupported: tuple[UnsupportedSetting, ...] = ()

    @property
    def changed_settings(self) -> dict[str, str]:
        """The declared values of the settings that differ."""
        return {each.setting: each.declared for each in self.differences if each.setting != _PARTITIONS}

    def without(self, unsupported: Sequence[UnsupportedSetting]) -> TopicStep:
        """The step that leaves these parts."""
        if not unsupported:
            return self
        if any(not each.setting for each in unsupported):
            return replace(self, kind=StepKind.SKIP, unsupported=tuple(unsupported))
        names = {each.setting for each in unsupported}
        differences = tuple(each for each in self.differences if each.setting not in names)
        kind = self.kind if self.kind is StepKind.CREATE else _kind(differences)
        return TopicStep(self.topic.without(names), kind, differences, tuple(unsupported))


@contextmanager
def admin_client(kafka: KafkaConnection, timeout_ms: int = _CONNECT_TIMEOUT_MS) -> Iterator[KafkaAdminClient]:
    """A connected admin client. Raises BrokerUnavailable, also for Kafka errors inside the block."""
    settings = kafka.kafka_python()
    if provider := settings.get("sasl_oauth_token_provider"):
        provider.token()  # the client would report a fault of the identity provider as an absent broker
    try:
        client = KafkaAdminClient(
            **settings,
            bootstrap_timeout_ms=timeout_ms,
            request_timeout_ms=_TIMEOUT_MS,
            reconnect_backoff_max_ms=500,
        )
    except (KafkaError, ValueError, OSError) as error:
        raise BrokerUnavailable(f"no Kafka answers at {kafka}: is it running? (fraud kafka broker start)") from error
    try:
        yield client
    except KafkaError as error:
        raise BrokerUnavailable(f"Kafka at {kafka} refused: {' '.join(str(error).split())[:400]}") from error
    finally:
        client.close()


def observe(client: KafkaAdminClient, topics: Sequence[Topic]) -> dict[str, ExistingTopic]:
    """The existing topics among the declared ones, by name."""
    existing = set(client.list_topics())
    wanted = [topic for topic in topics if topic.name in existing]
    if not wanted:
        return {}
    described = {entry["name"]: entry for entry in client.describe_topics([topic.name for topic in wanted])}
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic.name, list(topic.kafka_settings)) for topic in wanted]
    settings = client.describe_configs(resources, config_filter="all")["topic"]
    return {
        topic.name: ExistingTopic(
            topic.name,
            len(described[topic.name]["partitions"]),
            {name: str(entry["value"]) for name, entry in settings[topic.name].items()},
        )
        for topic in wanted
    }


def retentions_ms(kafka: KafkaConnection, topics: Sequence[str]) -> dict[str, int | None]:
    """The retention of the existing ones among these topics, None for unlimited. Raises BrokerUnavailable."""
    with admin_client(kafka) as client:
        topics = sorted(set(topics).intersection(client.list_topics()))
        if not topics:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, [_RETENTION]) for topic in topics]
        settings = client.describe_configs(resources, config_filter="all")["topic"]
    found = {topic: int(settings[topic][_RETENTION]["value"]) for topic in topics}
    return {topic: kept_ms if kept_ms >= 0 else None for topic, kept_ms in found.items()}


def log_bytes(kafka: KafkaConnection, topic: str) -> int | None:
    """The size of one copy of a topic in the brokers' log directories. Raises BrokerUnavailable.

    None if a broker does not report it, for example because no ACL allows this client to describe the cluster.
    """
    sizes: dict[int, int] = {}
    with admin_client(kafka) as client:
        for answer in client.describe_log_dirs([topic]):
            if not answer["log_dirs"] or any(each["error_code"] for each in answer["log_dirs"]):
                return None
            logs = (log for each in answer["log_dirs"] for named in each["topics"] for log in named["partitions"])
            for log in logs:
                number = log["partition_index"]
                sizes[number] = max(sizes.get(number, 0), log["partition_size"])
    return sum(sizes.values())


def plan(topics: Sequence[Topic], observed: Mapping[str, ExistingTopic]) -> tuple[TopicStep, ...]:
    """The step for each declared topic, in declared order. Pure."""
    return tuple(_step(topic, observed.get(topic.name)) for topic in topics)


def apply(kafka: KafkaConnection, topics: Sequence[Topic], *, skip_unsupported: bool = False) -> tuple[TopicStep, ...]:
    """Create and change topics as declared, wait until they can be used, and return the steps in declared order.

    Calls may be repeated and may run concurrently. Raises ConfigError before any change if a difference is refused, or
    if the cluster refuses a part of the declaration. With `skip_unsupported`, the steps leave such parts.
    """
    with admin_client(kafka) as client:
        steps = _supported(client, plan(topics, observe(client, topics)))
        refused = [f"{step.topic.name}: {', '.join(_faults(step))}" for step in steps if step.kind is StepKind.REFUSE]
        if refused:
            raise ConfigError("topics not changed: " + "; ".join(refused))
        left = [str(each) for step in steps for each in step.unsupported]
        if left and not skip_unsupported:
            remedy = "change config/topics.yaml, or leave them (fraud kafka topics apply --skip-unsupported)"
            raise ConfigError(f"topics not changed, because the cluster refuses {'; '.join(left)}: {remedy}")
        _create(client, [step.topic for step in steps if step.kind is StepKind.CREATE])
        for step in steps:
            if step.kind is StepKind.CHANGE:
                _change(client, step)
        present = [step.topic for step in steps if step.kind is not StepKind.SKIP]
        client.wait_for_topics([topic.name for topic in present], timeout_ms=_TIMEOUT_MS)
        _await_seen(client, present)
        _await_readable(client, present)
    return steps


def _supported(client: KafkaAdminClient, steps: Sequence[TopicStep]) -> tuple[TopicStep, ...]:
    """The steps without the parts that the cluster refuses."""
    found = unsupported_in_creations(client, [step.topic for step in steps if step.kind is StepKind.CREATE])
    for step in steps:
        if step.differences and not step.topic.external:
            found += unsupported_in_change(client, step.topic.name, step.changed_settings)
    return tuple(step.without([each for each in found if each.topic == step.topic.name]) for step in steps)


def _await_seen(client: KafkaAdminClient, topics: Sequence[Topic]) -> None:
    """Wait until the brokers show the declared topics. They learn a change a little after the controller accepts it."""
    behind: list[str] = []

    def are_shown() -> bool:
        steps = plan(topics, observe(client, topics))
        behind[:] = [step.topic.name for step in steps if step.kind is not StepKind.UNCHANGED]
        return not behind

    def timed_out() -> BrokerUnavailable:
        return BrokerUnavailable(f"the brokers do not show the changes to {', '.join(behind)}")

    wait_for(are_shown, within_s=_TIMEOUT_MS / 1_000, every_s=_POLL_S, timed_out=timed_out)


def _await_readable(client: KafkaAdminClient, topics: Sequence[Topic]) -> None:
    """Wait until a leader answers for each partition. It creates the log of a partition after the metadata show it."""
    ends = {
        TopicPartition(topic.name, number): OffsetSpec.LATEST
        for topic in topics
        if not topic.external
        for number in range(topic.partitions)
    }
    faults: list[str] = []

    def are_readable() -> bool:
        try:
            client.list_partition_offsets(ends, timeout_ms=_TIMEOUT_MS)
        except UnknownTopicOrPartitionError as error:
            faults[:] = [str(error)]
            return False
        return True

    def timed_out() -> BrokerUnavailable:
        return BrokerUnavailable(f"a partition that was created cannot be read yet: {faults[0]}")

    wait_for(are_readable, within_s=_TIMEOUT_MS / 1_000, every_s=_POLL_S, timed_out=timed_out)


def _step(topic: Topic, observed: ExistingTopic | None) -> TopicStep:
    if observed is None and topic.external:
        return TopicStep(topic, StepKind.REFUSE, (SettingDifference("the topic", "missing", "external", _EXTERNAL),))
    if observed is None:
        return TopicStep(topic, StepKind.CREATE)
    differences = tuple(_differences(topic, observed))
    return TopicStep(topic, _kind(differences), differences)


def _kind(differences: Sequence[SettingDifference]) -> StepKind:
    """The kind of the step for an existing topic with these differences."""
    if not differences:
        return StepKind.UNCHANGED
    return StepKind.REFUSE if any(each.fault for each in differences) else StepKind.CHANGE


def _differences(topic: Topic, observed: ExistingTopic) -> Iterator[SettingDifference]:
    if topic.partitions != observed.partitions and not topic.external:
        fault = "partitions are never removed" if topic.partitions < observed.partitions else ""
        yield SettingDifference(_PARTITIONS, str(observed.partitions), str(topic.partitions), fault)
    for name, declared in topic.kafka_settings.items():
        actual = observed.settings.get(name, "")
        if not _same(actual, declared):
            fault = _EXTERNAL if topic.external else _fault(name, actual, declared)
            yield SettingDifference(name, actual, declared, fault)


def _fault(name: str, actual: str, declared: str) -> str:
    if name in {"retention.ms", "retention.bytes"}:
        if not actual:
            return "the broker does not show its value yet: repeat the command"
        shorter = _amount(declared) < _amount(actual)
        return "would delete records" if shorter else ""
    if (name, declared) == (TIMESTAMP_TYPE, "LogAppendTime"):
        return ""  # the detector needs this setting; existing records keep their producers' times
    return _REFUSED.get(name, "")


def _faults(step: TopicStep) -> list[str]:
    return [str(difference) for difference in step.differences if difference.fault]


def _amount(text: str) -> float:
    """Parse a bound. -1 means unlimited."""
    return float("inf") if text == "-1" else float(text)


def _same(actual: str, declared: str) -> bool:
    try:
        return float(actual) == float(declared)
    except ValueError:
        return actual == declared


def _create(client: KafkaAdminClient, topics: Sequence[Topic]) -> None:
    faults = creation_faults(client, {topic.name: topic_request(topic) for topic in topics}, validate_only=False)
    if faults:
        raise ConfigError("topics not created: " + "; ".join(f"{topic}: {words}" for topic, words in faults.items()))


def _change(client: KafkaAdminClient, step: TopicStep) -> None:
    if settings := step.changed_settings:
        resource = ConfigResource(ConfigResourceType.TOPIC, step.topic.name, settings)
        results = client.alter_configs([resource], incremental=True, raise_on_unknown=False)
        said = results["topic"][step.topic.name]
        if said != "OK":
            raise ConfigError(f"{step.topic.name}: {' '.join(str(said).split())[:300]}")
    if any(difference.setting == _PARTITIONS for difference in step.differences):
        client.create_partitions({step.topic.name: step.topic.partitions}, timeout_ms=_TIMEOUT_MS)
