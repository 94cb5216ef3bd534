"""The files of deployments bound what their workers take."""

from __future__ import annotations

import configparser
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_the_unit_owns_its_control_group_and_bounds_it() -> None:
    text = (ROOT / "deploy" / "minimizer-worker@.service").read_text()
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    service = dict(unit["Service"])
    assert set(service["Delegate"].split()) == {"cpu", "memory", "pids"}
    assert service["MemoryMax"] and service["TasksMax"] and service["MemorySwapMax"] == "0"
    assert service["OOMPolicy"] == "continue", "a job that takes too much must not take its worker along"
    shown = (ROOT / "docs" / "deploy.md").read_text()
    assert all(f"{name}={value}" in shown for name, value in service.items())


def test_containers_of_workers_are_bounded() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name in ("worker", "worker-gpu"):
        assert services[name]["mem_limit"] and services[name]["pids_limit"]
    manifests = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in manifests if one["kind"] == "Deployment"
    }
    for name, pod in pods.items():
        assert "memory" in pod["containers"][0]["resources"]["limits"], name
