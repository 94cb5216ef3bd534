"""The ways in which a plain run starts a script, or another text in its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LAUNCHER = """import os, runpy, sys
{setting}
sys.argv, sys.path[0] = sys.argv[1:], os.path.dirname(sys.argv[1])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
CANDIDATE = """import linecache, os, sys, types
{setting}
_, text, *sys.argv = sys.argv
path, sys.path[0] = sys.argv[0], os.path.dirname(sys.argv[0])
with open(text, encoding="utf-8") as file:
    text = file.read()
linecache.cache[path] = (len(text), None, text.splitlines(True), path)
module = sys.modules["__main__"] = types.ModuleType("__main__")
module.__file__ = path
exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
"""
"""Runs another text under the name of the script, as Python would run the script."""
FORCE_EAGER = 'import torch; torch.compiler.set_stance("force_eager")'


@dataclass(frozen=True)
class Way:
    """A way to start the script: ``environment`` is added to its own, ``setting`` is a statement to run first."""

    name: str
    environment: tuple[tuple[str, str], ...] = ()
    setting: str = ""


COMPILED = Way("plain run, compiled")
DISABLED = Way("plain run, TORCHDYNAMO_DISABLE=1", environment=(("TORCHDYNAMO_DISABLE", "1"),))
FORCED = Way("plain run, stance force_eager", setting=FORCE_EAGER)
SETTINGS = (
    Way("fallback_random", setting="import torch._inductor.config as config; config.fallback_random = True"),
    Way("caches", environment=(("TORCHINDUCTOR_FX_GRAPH_CACHE", "0"), ("TORCHINDUCTOR_AUTOGRAD_CACHE", "0"))),
    Way("threads", environment=(("TORCHINDUCTOR_COMPILE_THREADS", "1"),)),
    Way("wait_policy", environment=(("OMP_WAIT_POLICY", "PASSIVE"),)),
    Way("seed", setting="import random, torch; random.seed(0); torch.manual_seed(0)"),
)
"""Settings of our surveys, each as a plain run with that setting only."""


def launcher_of(way: Way, folder: Path, text: str | None = None) -> list[Path]:
    """The files before the script in a command that starts it, or another text in its place, in some way."""
    launcher, candidate = folder / "launcher.py", folder / "candidate.py"
    if text is not None:
        launcher.write_text(CANDIDATE.format(setting=way.setting))
        candidate.write_text(text, encoding="utf-8")
        return [launcher, candidate]
    if way.setting:
        launcher.write_text(LAUNCHER.format(setting=way.setting))
        return [launcher]
    return []
