"""How files of the running program are named."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from minimizer.inside.places import place_of


@pytest.mark.parametrize(
    ("package", "main", "name"),
    [
        (None, "train.py", "pkg/model.py"),  # python train.py
        ("", "train.py", "pkg/model.py"),  # by runpy.run_path
        ("pkg", "pkg/train.py", "pkg/model.py"),  # python -m pkg.train
        ("pkg", "pkg/__main__.py", "pkg/model.py"),  # python -m pkg
        ("pkg.tools", "pkg/tools/train.py", "pkg/model.py"),  # python -m pkg.tools.train
        (None, "pkg/train.py", "model.py"),  # python pkg/train.py
    ],
)
def test_a_file_is_named_from_the_top_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str | None, main: str, name: str
) -> None:
    module = types.ModuleType("__main__")
    module.__file__, module.__package__ = str(tmp_path / main), package
    monkeypatch.setitem(sys.modules, "__main__", module)
    place = place_of(str(tmp_path / "pkg" / "model.py"))
    assert (place.name, place.is_users) == (name, True)
