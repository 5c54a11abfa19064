"""The commands of docs/install.md lead to the first alert: `pytest -m long tests/installation/test_install_page.py`.

A new user of a bare Debian has an environment with Airflow. Kafka and the payments, whose fields have other names than
those of the demo, are outside. The script has the commands of the page, those of docs/connect.md to which it leads, and
the edits of files that the two pages describe. `walk.log` in the folder of the test has each command and its time.

This needs root, debootstrap and the network; `FRAUD_CHROOTS` names the folder for the systems (3 GB each).
"""

from __future__ import annotations

import json
import random
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fraud_rules.configuration.project import Project
from tests.support.bare_debian import BareDebian, bare_debian, missing_for_a_bare_debian
from tests.support.kafka.own_broker import running_broker
from tests.support.wheels import python

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(4 * 3_600)]

_PREPARE_S, _WALK_S = 1_800.0, 3_600.0
_PAYMENTS_A_SECOND = 5

_PREPARE = """
apt-get update -qq && apt-get install -y -qq --no-install-recommends sudo {packages}
useradd --create-home --shell /bin/bash nina && echo 'nina ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/nina
mv ~/fraud /home/nina/ && mkdir ~/fraud && chmod a+x /root && chown -R nina: /home/nina
su nina -c 'cd && {python} -m venv venv && . venv/bin/activate && pip install --quiet apache-airflow=={airflow}'
"""

_WAITS = {
    "fraud detector agent": "test -s var/agent/intent-keys",
    "airflow standalone": "grep -q 'Airflow is ready' airflow.log",
    "airflow dags unpause": "fraud status",
    "fraud alerts list": "fraud alerts list | grep DE00",
}
"""What a reader sees before the next command, by the start of a command."""


@pytest.fixture(params=["trixie with its Python 3.13", "bookworm with a Python 3.12"])
def debian(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Iterator[BareDebian]:
    """A system whose user nina has a checkout in ~/fraud, and ~/venv with Airflow."""
    if reason := missing_for_a_bare_debian():
        pytest.skip(reason)
    suite, own = request.param.split()[0], "python3"
    with bare_debian(suite, project.root, tmp_path / "base.log") as debian:
        if suite == "bookworm":
            found = python("3.12")
            if found is None:
                pytest.skip("there is no Python 3.12")
            folder = found.resolve().parents[1]
            shutil.copytree(folder, debian.root / folder.relative_to("/"), symlinks=True)
            own = str(found.resolve())
        packages = "python3-venv" if own == "python3" else "libsqlite3-0 libffi8 libreadline8 libbz2-1.0 liblzma5"
        command = _PREPARE.format(packages=packages, python=own, airflow=version("apache-airflow"))
        run(debian, command, tmp_path / "prepare.log", _PREPARE_S)
        yield debian


def test_the_first_alert_of_a_new_user(debian: BareDebian, project: Project, tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker", project) as broker, payments_in(broker.bootstrap):
        script = debian.root / "home" / "nina" / "walk.sh"
        script.write_text(walk(project, broker.bootstrap), encoding="utf-8")
        run(debian, "su nina -c 'cd && bash walk.sh'", tmp_path / "walk.log", _WALK_S)


def run(debian: BareDebian, command: str, log: Path, timeout_s: float) -> None:
    code = debian.run(f"set -e; {command}", log, timeout_s, {"PIP_FIND_LINKS": ""})
    assert code == 0, f"exit code {code}\n{log.read_text(encoding='utf-8', errors='replace')[-8_000:]}"


def walk(project: Project, bootstrap: str) -> str:
    """The script with the commands and edits of the pages."""
    install, connect = (project.root / "docs" / name for name in ("install.md", "connect.md"))
    topic, _ = blocks(section(connect, "3. Name the topic"))
    rule = blocks(section(connect, "5. The first alert"))[0][1].replace("payer", "from_account")
    lines = [". venv/bin/activate", "cd fraud", "set -eEx", "trap 'tail -n 30 *.log >&2' ERR", "PS4='$(date +%T) '"]
    for language, block in blocks(install.read_text(encoding="utf-8")):
        if language == "python":
            lines += ["mkdir -p ~/airflow/dags", f"cat >~/airflow/dags/fraud.py <<'END'\n{block}END"]
            continue
        for command in block.splitlines():
            if command.startswith("fraud kafka topics apply"):
                lines += [f"python - <<'END'\n{_EDIT.format(topic=topic[1])}END"]
            if command.startswith("fraud rules check"):
                lines += [f"cat >config/rules/first.yaml <<'END'\n{rule}END"]
            lines += [command]
            lines += [waited(condition) for start, condition in _WAITS.items() if command.startswith(start)]
    return "\n".join([*lines, ""]).replace("broker:9092", bootstrap)


_EDIT = """
import re
from pathlib import Path

file = Path("config/topics.yaml")
members = re.compile(r"^  transactions:\\n(    .*\\n)+", re.MULTILINE)
file.write_text(members.sub('''{topic}''', file.read_text(), count=1))
"""


def waited(condition: str) -> str:
    return f'timeout 600 sh -c "until {condition}; do sleep 1; done"'


def section(page: Path, title: str) -> str:
    return page.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def blocks(text: str) -> list[tuple[str, str]]:
    """The code blocks with their languages."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@contextmanager
def payments_in(bootstrap: str) -> Iterator[None]:
    """The topic `payments` of a company, with append times, and a producer that writes payments until the end of the
    block."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("payments", num_partitions=3, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([topic])["payments"].result()
    ended = threading.Event()
    thread = threading.Thread(target=_produce, args=(bootstrap, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _produce(bootstrap: str, ended: threading.Event) -> None:
    producer, chosen, number = Producer({"bootstrap.servers": bootstrap}), random.Random(1), 0
    while not ended.wait(1 / _PAYMENTS_A_SECOND):
        number += 1
        payment = {
            "id": f"p-{number:06}",
            "ts": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "from_account": f"DE{chosen.randrange(40):04}",
            "to_account": f"FR{chosen.randrange(60):04}",
            "amount": round(chosen.lognormvariate(4, 1), 2),
            "currency": chosen.choice(["EUR", "USD"]),
        }
        producer.produce("payments", json.dumps(payment))
        producer.poll(0)
    producer.flush()
