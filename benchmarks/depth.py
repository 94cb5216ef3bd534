"""What the table of layers costs as a model grows deeper: one faulty block among 8, 16, 32 and 64 equal ones.

python benchmarks/depth.py
python benchmarks/depth.py 8 64

For each depth: the seconds of the script by itself, from a cold kernel cache; the seconds that finding the module and measuring
every layer take; and the one divided by the other. Equal blocks share one compilation, so the second figure should grow no faster
than the first, which compiles the whole model. ``deepest_against_first`` compares the last depth's quotient with the first's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from minimizer.engine.pipeline import minimize
from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.sink import Event, FolderSink
from minimizer.vocabulary import Status

SCRIPT = """
import torch
import torch._inductor.config as config
from torch import nn

config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Block(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
        self.activation = activation

    def forward(self, x):
        return x + self.down(self.activation(self.up(self.norm(x))))


torch.manual_seed(0)
blocks = [Block(nn.ReLU() if n == {depth} // 2 else nn.GELU()) for n in range({depth})]
model = torch.compile(nn.Sequential(*blocks).eval())
with torch.no_grad():
    model(torch.randn(8, 16, 64))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("depths", nargs="*", type=int, default=[8, 16, 32, 64])
    depths = parser.parse_args().depths
    alone(depths[0])  # what is read from the disk for the first time must not count for one depth alone
    rows = [measure(depth) for depth in depths]
    print(json.dumps({"rows": rows, "deepest_against_first": round(rows[-1]["ratio"] / rows[0]["ratio"], 2)}, indent=1))
    return 0


def measure(depth: int) -> dict[str, Any]:
    """The figures of one depth, in seconds."""
    seconds = alone(depth)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "model.py")
        script.write_text(SCRIPT.replace("{depth}", str(depth)))
        steps: list[tuple[str, float]] = []

        def on_event(event: Event) -> None:
            if event["type"] == "step" and event["state"] == "finished":
                steps.append((event["step"], event["seconds"]))

        report = minimize(
            script, options=Options(witness=False), settings=Settings(), sink=FolderSink(Path(folder, "out"), on_event)
        )
    if report.status is not Status.MINIMIZED or report.culprits[0].module != f"{depth // 2}.activation":
        raise SystemExit(f"depth {depth}: {report.status}, {report.culprits}")
    localize = next(seconds for step, seconds in steps if step == "localize")
    layers = next(seconds for step, seconds in steps if step == "measure")
    bisector = localize + layers
    row = {"depth": depth, "nodes": report.reduction.nodes_before if report.reduction else None, "script": seconds}
    return row | {
        "localize": localize,
        "layers": layers,
        "bisector": round(bisector, 2),
        "ratio": round(bisector / seconds, 2),
    }


def alone(depth: int) -> float:
    """Seconds of the script by itself, from a cold kernel cache, importing torch included."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "model.py")
        script.write_text(SCRIPT.replace("{depth}", str(depth)))
        begun = time.monotonic()
        subprocess.run([sys.executable, script], env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder}, check=True)
        return round(time.monotonic() - begun, 2)


if __name__ == "__main__":
    sys.exit(main())
