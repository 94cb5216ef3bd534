"""Starting the web side: what it needs, and what it says when it cannot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

from minimizer.errors import UserError
from minimizer.settings import Settings
from web.server.serve import serve


def test_taken_port_is_told(sqlite_url: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings(data_dir=tmp_path, database_url=sqlite_url, port=taken.getsockname()[1])
        with pytest.raises(UserError, match="MINIMIZER_PORT"):
            serve(settings)


def test_web_loads_neither_torch_nor_engine_nor_worker(sqlite_url: str, tmp_path: Path) -> None:
    look = (
        "import sys, web.wsgi, web.server.serve;"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'worker') or m in "
        "('minimizer.engine.pipeline', 'minimizer.engine.child.executor', 'minimizer.inside')])"
    )
    environment = os.environ | {"MINIMIZER_DATABASE_URL": sqlite_url, "MINIMIZER_DATA_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert run.stdout.strip() == "[]", run.stderr
