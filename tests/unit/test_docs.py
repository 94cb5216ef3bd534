"""The documentation says what the program does: every setting, option, route and example is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
from checkout import ROOT
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from minimizer.cli import cli
from minimizer.report.finding import FindingKind
from minimizer.report.model import Report
from minimizer.settings import Settings
from minimizer.store.tables.migrate import upgrade
from minimizer.vocabulary import Step
from web.factory import create_app

DOCS = ROOT / "docs"
ROOMS = ("minimizer", "web", "worker", "migrations", "tests")


def settings_table() -> str:
    rows = ["| variable | default | what it is for |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        rows.append(f"| `MINIMIZER_{name.upper()}` | {_default(field)} | {field.description} |")
    return "\n".join(rows)


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "number of cores"
    return f"`{field.default}`" if field.default not in (None, "") else "not set"


def test_every_setting_is_in_the_table() -> None:
    assert settings_table() in (DOCS / "settings.md").read_text(), f"docs/settings.md needs:\n{settings_table()}"


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name, command


@pytest.mark.parametrize(
    ("name", "command"), list(commands(cli)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_option_is_documented(name: str, command: click.Command) -> None:
    sections = dict(
        re.findall(r"^## `minimizer ([a-z ]+)`$(.*?)(?=^## |\Z)", (DOCS / "cli.md").read_text(), re.M | re.S)
    )
    assert name in sections
    options = [option for param in command.params if isinstance(param, click.Option) for option in param.opts]
    documented = set(re.findall(r"`(-[a-z]\b|--[a-z-]+)", sections[name]))
    known = {*options, *(o for param in command.params for o in param.secondary_opts)}
    assert set(options) <= documented <= known


def test_every_route_is_documented(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    upgrade(settings.resolved_database_url)
    app = create_app(settings, ring=lambda job_id: None)
    routes = {
        (method.upper(), re.sub(r"\{job_id\}", "{id}", path))
        for path, methods in app.api_doc["paths"].items()
        for method in methods
    }
    app.extensions["minimizer"].close()
    app.extensions["minimizer"].store.close()
    text = (DOCS / "rest.md").read_text()
    documented = {
        (method, path.partition("?")[0])
        for method, path in re.findall(r"`(GET|POST|DELETE|PUT|PATCH) (/[^` ]*)`", text)
    }
    files = {
        f"/api/v1/jobs/{{id}}/{name}"
        for name in ("repro.py", "report.json", "report.md", "issue.md", "run.log", "script.py")
    }
    expected = (routes - {("GET", "/api/v1/jobs/{id}/{name}")}) | {("GET", path) for path in files}
    assert expected <= documented


def test_every_field_of_the_report_is_documented() -> None:
    def parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
        yield model
        for field in model.model_fields.values():
            for inner in (field.annotation, *get_args(field.annotation)):
                if isinstance(inner, type) and issubclass(inner, BaseModel):
                    yield from parts(inner)

    fields = {field.alias or name for part in parts(Report) for name, field in part.model_fields.items()}
    page = (DOCS / "report.md").read_text()
    documented = {word.rpartition(".")[2].removesuffix("[]") for word in re.findall(r"`([a-z0-9_.\[\]]+)`", page)}
    assert fields <= documented, fields - documented


def test_the_documents_have_the_steps_in_their_order() -> None:
    steps = [step.value for step in Step]
    table = (DOCS / "architecture.md").read_text().partition("| step | where | what it does |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ([a-z]+) \|", table, re.M)
    assert [row for row in rows if row in steps] == steps
    (timings,) = re.findall(r"^\| `timings` \|(.*)$", (DOCS / "report.md").read_text(), re.M)
    assert [word for word in re.findall(r"`([a-z]+)`", timings) if word != "total"] == steps


@pytest.mark.parametrize("page", ["architecture.md", "design.md"])
def test_the_files_that_the_documents_name_exist(page: str) -> None:
    files = [f"/{path.relative_to(ROOT)}" for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", (DOCS / page).read_text())) - {"repro.py"}
    assert not [name for name in named if not any(file.endswith(f"/{name}") for file in files)]


def test_every_example_is_in_its_readme_and_says_what_it_is() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    for script in (ROOT / "examples").glob("*.py"):
        assert f"`{script.name}`" in listed
        assert ast.get_docstring(ast.parse(script.read_text()))


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), *sorted(ROOT.glob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"(?m)(?:^|`)make ([a-z][a-z-]*)", (ROOT / page).read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_guide_names_sections_and_findings_that_exist() -> None:
    page = (DOCS / "guide.md").read_text()
    answers = page.partition("## Programs and")[0]
    titles = set(re.findall(r'\("([A-Z][^"]+)", ', (ROOT / "minimizer" / "report" / "as_markdown.py").read_text()))
    named = set(re.findall(r"(?<!\*)\*([A-Z][^*]+)\*(?!\*)", answers))
    assert named <= titles and {"Ablation", "Health", "Where"} <= named, named - titles
    kinds = re.findall(r"[Ff]inding `([a-z_]+)`", answers)
    assert set(kinds) == {*get_args(FindingKind)} - {"stale_cache_risk"}, "which no report has yet"
    for script in re.findall(r"`minimizer run (\w+/\S+\.py)", page):
        assert (ROOT / script).exists(), script
