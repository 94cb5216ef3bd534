"""What an installation would add to a checkout that is only on the path: its entry points."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def entry_points(folder: Path) -> Path:
    """Make ``folder``, once it is on the path, as good as an installation; returns it."""
    metadata = folder / "minimizer_checkout-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: minimizer_checkout\nVersion: 0\n")
    parser = configparser.ConfigParser()
    parser.read_dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"])
    with (metadata / "entry_points.txt").open("w") as file:
        parser.write(file)
    return folder
