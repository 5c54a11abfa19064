"""The manifests of deploy/ and the unit of systemd, without a cluster: by kubectl, by the schemas of Kubernetes, and by
rules of our own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from fraud_rules.cli import app
from fraud_rules.deploy.agent.allow_list import AllowList
from tests.support.places import ROOT
from tests.support.wheels import uv

OVERLAYS = ("local-spark", "spark-on-kubernetes")
FOLDER = ROOT / "deploy" / "kubernetes" / "overlays"
HOME = "/opt/fraud"
overlays = pytest.mark.parametrize("overlay", OVERLAYS)


@cache
def rendered(overlay: str) -> str:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    command = ["kubectl", "kustomize", str(FOLDER / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(overlay: str) -> dict[tuple[str, str], dict[str, Any]]:
    documents = yaml.safe_load_all(rendered(overlay))
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def files_of(overlay: str) -> Mapping[str, str]:
    """The files of the ConfigMap beside the agent."""
    (found,) = (each for (kind, name), each in objects(overlay).items() if kind == "ConfigMap" and "releases" in name)
    data: Mapping[str, str] = found["data"]
    return data


def pods(overlay: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The specification of each pod, also that of the template of executors."""
    for (_, name), each in objects(overlay).items():
        if "template" in each.get("spec", {}):
            yield name, each["spec"]["template"]["spec"]
    if "executor.yaml" in files_of(overlay):
        yield "executor", yaml.safe_load(files_of(overlay)["executor.yaml"])["spec"]


@overlays
def test_every_pod_runs_without_root_on_a_read_only_file_system(overlay: str) -> None:
    assert {"fraud-agent", "fraud-control-plane"} <= {name for name, _ in pods(overlay)}
    for name, pod in pods(overlay):
        security = pod["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10_001), name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }, name  # fmt: skip


@overlays
def test_every_container_has_bounds_and_probes(overlay: str) -> None:
    """Spark bounds the containers of executors, and replaces those that are lost."""
    for name, pod in pods(overlay):
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert all(each["emptyDir"]["sizeLimit"] for each in volumes.values() if "emptyDir" in each), name
        for container in pod["containers"] if name != "executor" else ():
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), name
            resources = container["resources"]
            assert {"cpu", "memory"} <= resources["requests"].keys(), name
            assert "memory" in resources["limits"], name


@overlays
def test_what_the_image_keeps_is_on_volumes(overlay: str) -> None:
    """The image declares the folders that our programs write to. The archive is in an object store."""
    dockerfile = (ROOT / "config" / "images" / "Dockerfile").read_text(encoding="utf-8")
    kept = set(re.findall(r"^VOLUME (.+)$", dockerfile, re.MULTILINE)[0].split())
    assert kept == {f"{HOME}/var", f"{HOME}/archive", f"{HOME}/airflow", f"{HOME}/views"}
    mounted = {
        name: {mount["mountPath"] for each in pod["containers"] for mount in each["volumeMounts"]}
        for name, pod in pods(overlay)
    }
    assert {f"{HOME}/var", f"{HOME}/views", "/tmp"} <= mounted["fraud-agent"]
    assert {f"{HOME}/var", "/tmp"} <= mounted["fraud-control-plane"]


@overlays
def test_every_command_exists(overlay: str) -> None:
    containers = [each for name, pod in pods(overlay) for each in pod["containers"] if name != "executor"]
    probes = [each["readinessProbe"]["exec"]["command"] for each in containers if "exec" in each["readinessProbe"]]
    found = [*(each["args"] for each in containers), *probes]
    assert len(found) == 3
    for program, *words in found:
        command: Any = get_command(app)
        assert program == "fraud"
        while words and words[0] in getattr(command, "commands", {}):
            command, words = command.commands[words[0]], words[1:]
        command.make_context("fraud", list(words))


@overlays
def test_the_agent_is_alone_and_accepts_the_releases_of_its_overlay(overlay: str, tmp_path: Path) -> None:
    found = objects(overlay)
    assert found["StatefulSet", "fraud-agent"]["spec"]["replicas"] == 1
    assert found["Deployment", "fraud-control-plane"]["spec"]["replicas"] == 2
    assert found["PodDisruptionBudget", "fraud-control-plane"]["spec"]["minAvailable"] == 1
    (tmp_path / "agent.yaml").write_text(files_of(overlay)["agent.yaml"], encoding="utf-8")
    masters = AllowList.load(tmp_path / "agent.yaml", "kafka:9092").masters
    assert list(masters) == {"local-spark": ["local*"], OVERLAYS[1]: ["k8s://https://kubernetes.default.svc"]}[overlay]


def test_only_the_driver_of_executors_may_use_the_api_and_only_for_them() -> None:
    found = objects(OVERLAYS[1])
    assert ("Role", "fraud-spark") not in objects(OVERLAYS[0])
    rules = found["Role", "fraud-spark"]["rules"]
    assert {each for rule in rules for each in rule["resources"]} == {
        "configmaps", "persistentvolumeclaims", "pods", "services",
    }  # fmt: skip
    assert not any("*" in rule["verbs"] or "update" in rule["verbs"] or "patch" in rule["verbs"] for rule in rules)
    (subject,) = found["RoleBinding", "fraud-spark"]["subjects"]
    assert subject["name"] == "fraud-agent"
    tokens = {name: pod.get("automountServiceAccountToken", False) for name, pod in pods(OVERLAYS[1])}
    assert tokens == {"fraud-agent": True, "fraud-control-plane": False, "executor": False}


def test_an_image_has_a_digest_which_the_installation_replaces() -> None:
    images = set(re.findall(r"image: (\S+)", rendered(OVERLAYS[0])))
    assert images == {f"registry.example/fraud-rules@sha256:{'0' * 64}"}


@pytest.mark.long
@overlays
def test_the_objects_match_the_schemas_of_kubernetes(overlay: str, tmp_path: Path) -> None:
    if uv() is None:
        pytest.skip("there is no uv")
    path, template = tmp_path / "objects.yaml", tmp_path / "executor.yaml"
    path.write_text(rendered(overlay), encoding="utf-8")
    template.write_text(files_of(overlay).get("executor.yaml", ""), encoding="utf-8")
    command = [str(uv()), "run", "--frozen", "--isolated", "--only-group", "kubernetes", "kubernetes-validate"]
    files = [str(each) for each in (path, template) if each.stat().st_size]
    done = subprocess.run(
        [*command, "--kubernetes-version", "1.32", "--strict", *files],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With a program that exists, because systemd looks for it."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    text = (ROOT / "deploy" / "systemd" / "fraud-agent.service").read_text(encoding="utf-8")
    assert "ExecStart=/opt/fraud/bin/fraud detector agent" in text
    unit = tmp_path / "fraud-agent.service"
    unit.write_text(text.replace("/opt/fraud/bin/fraud", "/bin/true"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
