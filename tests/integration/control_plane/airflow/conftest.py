"""A control plane behind Airflow's API server, which the tests of this folder share: a start takes half a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.declared import load_topics
from tests.support.control_plane.web.api_server import ApiServer, api_server
from tests.support.kafka.own_topics import delete_topics


@pytest.fixture(scope="package")
def configured(broker: Broker, project: Project) -> Iterator[Broker]:
    """The broker with topics of the configured names. No other test of the session uses them meanwhile."""
    declared = load_topics(project.config / "topics.yaml")
    topic_admin.apply(broker.kafka, declared)
    yield broker
    delete_topics(broker.kafka, declared)


@pytest.fixture(scope="package")
def served(configured: Broker, project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The server, with four eyes, and the users `admin` and `anna`, who is an analyst."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRAUD_CONTROL_FOUR_EYES", "true")
        with api_server(configured, project, tmp_path_factory.mktemp("served")) as server:
            assert server.ask("PUT", "/bindings/anna", json={"role": "analyst"}).status_code == 200
            yield server
