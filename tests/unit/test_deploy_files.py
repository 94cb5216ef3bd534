"""The files of deployments bound what their containers take."""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import Any

import yaml

from minimizer import script_text
from web.server import front

ROOT = Path(__file__).parents[2]
WEB_BYTES = 256 << 20
"""A web process by itself takes 100 to 160 MiB."""


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
    for name, pod in pods().items():
        assert "memory" in pod["containers"][0]["resources"]["limits"], name


def test_the_pod_of_the_web_server_has_room_for_all_that_it_takes_at_once() -> None:
    limit = pods()["web"]["containers"][0]["resources"]["limits"]["memory"]
    parsers = script_text._MOST_PARSERS * script_text.PARSER_BYTES
    assert limit.endswith("Gi")
    assert int(limit.removesuffix("Gi")) << 30 >= WEB_BYTES + front._BODY_BYTES_IN_ALL + parsers


def pods() -> dict[str, Any]:
    """What the deployments of Kubernetes run, by name."""
    manifests = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in manifests if one["kind"] == "Deployment"
    }
