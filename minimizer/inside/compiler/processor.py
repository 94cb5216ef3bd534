"""Caches inductor's probes of the processor, so that they run once for each job.

Before a process's first kernel, inductor builds a probe for every vector extension of the processor, and loads it in a new
interpreter. A trial builds one kernel, so the probes would take a large part of its time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import torch._inductor.config
from torch._inductor import cpu_vec_isa
from torch._inductor.runtime.cache_dir_utils import cache_dir

FOLDER = "probes"


def remember_probes() -> None:
    """Store the outcome of each probe in the kernel cache, for all processes that share it.

    Does nothing if the private class that is patched has changed.
    """
    original = getattr(cpu_vec_isa.VecISA, "check_build", None)
    if original is None:
        return

    def check_build(isa: Any, code: str) -> bool:
        asked = (type(isa).__name__, isa.build_arch_flags(), torch._inductor.config.cpp.cxx, code)
        kept = Path(cache_dir(), FOLDER, hashlib.sha256(repr(asked).encode()).hexdigest())
        try:
            return kept.read_text() == "loads"
        except OSError:
            loads = bool(original(isa, code))
        with contextlib.suppress(OSError):  # a script may have deleted the cache folder; compilation works without it
            kept.parent.mkdir(parents=True, exist_ok=True)
            new = kept.with_name(f"{kept.name}.{os.getpid()}")
            new.write_text("loads" if loads else "fails")
            new.replace(kept)
        return loads

    cpu_vec_isa.VecISA.check_build = check_build  # type: ignore[method-assign, assignment]
