"""Caches inductor's probes of the processor and the name of its precompiled header, so that each is computed once per
job.

Before a process's first kernel, inductor builds a probe for every vector extension of the processor, and loads it in a
new interpreter; and it preprocesses the header of all kernels, whose hash is the name of the precompiled one. A trial
builds one kernel, so this would take a large part of its time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import torch._inductor.config
from torch._inductor import codecache, cpu_vec_isa
from torch._inductor.runtime.cache_dir_utils import cache_dir

FOLDER = "probes"


def remember_probes() -> None:
    """Store the outcome of each probe in the kernel cache, for all processes that share it.

    Does nothing if this torch has no such method (`hooks.WISHED`).
    """
    original = getattr(cpu_vec_isa.VecISA, "check_build", None)
    if original is None:
        return

    def check_build(isa: Any, code: str) -> bool:
        asked = (type(isa).__name__, isa.build_arch_flags(), torch._inductor.config.cpp.cxx, code)
        kept = _kept(asked)
        try:
            return kept.read_text() == "loads"
        except OSError:
            loads = bool(original(isa, code))
        _keep(kept, "loads" if loads else "fails")
        return loads

    cpu_vec_isa.VecISA.check_build = check_build  # type: ignore[method-assign, assignment]


def remember_headers() -> None:
    """Store the path of each precompiled header, for all processes of the job: the header does not change during it.

    Does nothing if this torch has no such function (`hooks.WISHED`).
    """
    original = getattr(codecache, "_precompile_header", None)
    if original is None:
        return

    def precompile_header(header: str, hashable_cmd_line: str, **compile_command: Any) -> str:
        kept = _kept((header, hashable_cmd_line, sorted(compile_command.items(), key=lambda item: item[0])))
        with contextlib.suppress(OSError):
            path = kept.read_text()
            if os.path.exists(f"{path}.gch"):
                return path
        path = str(original(header, hashable_cmd_line, **compile_command))
        _keep(kept, path)
        return path

    codecache._precompile_header = precompile_header  # type: ignore[assignment]


def _kept(asked: object) -> Path:
    return Path(cache_dir(), FOLDER, hashlib.sha256(repr(asked).encode()).hexdigest())


def _keep(kept: Path, answer: str) -> None:
    with contextlib.suppress(OSError):  # a script may have deleted the cache folder; compilation works without it
        kept.parent.mkdir(parents=True, exist_ok=True)
        new = kept.with_name(f"{kept.name}.{os.getpid()}")
        new.write_text(answer)
        new.replace(kept)
