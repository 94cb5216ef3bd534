"""What the processor can do, asked once a job.

Before inductor builds the first kernel of a process it builds and loads a probe for every extension of the processor's vector
instructions, and starts an interpreter for each. A trial builds one kernel, so that this is a good part of its time.
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
    """Keep the outcome of each probe beside the compiled kernels, for all processes that share that cache.

    Where the private class has changed, nothing is kept.
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
        with contextlib.suppress(OSError):  # a script may have taken the cache away, and is compiled all the same
            kept.parent.mkdir(parents=True, exist_ok=True)
            new = kept.with_name(f"{kept.name}.{os.getpid()}")
            new.write_text("loads" if loads else "fails")
            new.replace(kept)
        return loads

    cpu_vec_isa.VecISA.check_build = check_build  # type: ignore[method-assign, assignment]
