"""The script really rerun under PyTorch's own minifier."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import SECONDS, place, script

from minimizer.engine.witness import minifier
from minimizer.vocabulary import Kind

NAME = "a97eb8da8aa99cf28dfad09ca68ea30c2e56b426"
DUMPS = f"""
import os
from pathlib import Path

assert Path("beside.txt").read_text() == "what lies beside the script"
folder = Path(os.environ["TORCH_COMPILE_DEBUG_DIR"]) / "torch_compile_debug" / "run_1" / "minifier"
storages = folder / "checkpoints" / "storages"
storages.mkdir(parents=True)
told = {{name: value for name, value in os.environ.items() if name.startswith("TORCHDYNAMO_REPRO")}}
(folder / "minifier_launcher.py").write_text(f"{{sorted(told.items())}} {NAME} {{'b' * 40}} {{'c' * 40}}")
(storages / "{NAME}").write_bytes(b"values")
(storages / ("b" * 40)).symlink_to("/etc/hostname")
(storages / ("c" * 40)).write_bytes(b"too much for what is left of the room")
(storages / ("d" * 40)).write_bytes(b"not named")
raise SystemExit(1)
"""
"""A script that leaves behind what the minifier does."""


@pytest.mark.parametrize(("kind", "level"), [(Kind.WRONG_OUTPUT, 4), (Kind.COMPILE_ERROR, 2), (Kind.CRASH, 2)])
@pytest.mark.examples(1)
def test_both_witnesses_are_heard_at_the_level_that_dumps_such_a_failure(
    kind: Kind, level: int, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minifier, "INPUT_BYTES", 10)
    where = place(tmp_path / "shared", home)
    (where.origin / "beside.txt").write_text("what lies beside the script")
    heard = minifier.hear(
        where,
        script(home, DUMPS),
        [],
        kind,
        seconds=lambda: SECONDS,
        parallel=2,
        watch=lambda: None,
    )
    assert [(one.after, one.level, one.sees) for one in heard] == [("dynamo", level, True), ("aot", level, True)]
    for one in heard:
        assert one.dump is not None
        told = [("TORCHDYNAMO_REPRO_AFTER", one.after), ("TORCHDYNAMO_REPRO_LEVEL", str(level))]
        assert one.dump.launcher.startswith(str(told))
        assert one.dump.storages == {NAME: b"values"}
