"""Tests whether an interpreter's torch can compute on GPUs, in a separate process, since a broken driver may crash it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minimizer.sandbox.gpus import Gpu

SECONDS = 120
"""Timeout of the test, which imports torch and starts CUDA."""
_ASK = """
import importlib.util, json
import torch
facts = {"torch": str(torch.__version__), "cuda": torch.version.cuda or "", "triton": "", "trouble": ""}
if importlib.util.find_spec("triton"):
    import triton
    facts["triton"] = str(triton.__version__)
if not torch.version.cuda:
    facts["trouble"] = "torch " + facts["torch"] + " is not built for CUDA"
else:
    try:
        torch.zeros(1, device="cuda").item()
    except Exception as error:
        if "out of memory" not in str(error):  # somebody's job is on it, and will end
            facts["trouble"] = "torch " + facts["torch"] + " cannot use it: " + str(error).strip().split(chr(10))[0]
    if not facts["trouble"] and not facts["triton"]:
        facts["trouble"] = "Triton is not installed, and inductor compiles for a GPU with it"
print()
print(json.dumps(facts))
"""


@dataclass(frozen=True)
class TorchCuda:
    """Versions, empty if missing; ``trouble``: why torch cannot compute on the GPUs, else empty."""

    torch: str = ""
    cuda: str = ""
    triton: str = ""
    trouble: str = ""

    @property
    def text(self) -> str:
        """The versions, for a message."""
        parts = [f"torch {self.torch}", self.cuda and f"CUDA {self.cuda}", self.triton and f"Triton {self.triton}"]
        return ", ".join(filter(None, parts))


def torch_on(python: Path, gpus: Sequence[Gpu]) -> TorchCuda:
    """Test the torch of an interpreter on these GPUs, by a computation on the first."""
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in gpus)}
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            env=env,
        )
        last = (done.stdout.strip().splitlines() or [""])[-1]
        return TorchCuda(**{name: str(value) for name, value in json.loads(last).items()})
    except subprocess.TimeoutExpired:
        return TorchCuda(trouble=f"torch does not answer within {SECONDS} s")
    except OSError as error:
        return TorchCuda(trouble=f"{python} cannot be started: {error.strerror}")
    except (ValueError, TypeError, AttributeError):
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return TorchCuda(trouble=f"torch cannot be asked: {said}"[:300])
