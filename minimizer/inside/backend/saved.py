"""Saves a fault to disk: the captured graph as data, and its input tensors. `minimizer.captured` makes a script from them."""

from __future__ import annotations

import json
import operator
import os
import sys
from collections.abc import Mapping
from typing import Any

import torch

from ..graph import state
from ..graph.lowering import write_down
from ..places import caller
from ..referee.call import Call, GradientCall
from ..values import snapshot
from ..values.rounding import tensors
from .checked import Fault

CAPTURE, TENSORS = "capture.json", "inputs.pt"
RNG = "random state"
"""Key in ``inputs.pt`` of the random state for ``torch.set_rng_state``; no input name can contain a space."""


def save(fault: Fault, folder: str, compile_kwargs: Mapping[str, Any]) -> None:
    """Write ``capture.json`` and ``inputs.pt`` into a new folder.

    Args:
        fault: the call to save.
        folder: created here; must not exist.
        compile_kwargs: the arguments of ``torch.compile`` other than the backend.

    Tensors of the user's own subclasses are saved as plain tensors, which is how the graph treats them.

    Raises:
        literals.Opaque: the graph, or an option, contains something that cannot be written as source text.
        OSError: it cannot be written.
    """
    call, is_backward = fault.call, isinstance(fault.call, GradientCall)
    module, inputs, body = write_down(
        fault.module,
        list(call.inputs),
        dict(call.rng),
        level="auto",
        called_from=caller(),
        cotangents=_ones(call) if is_backward else None,
    )
    names = body.pop("names")
    state.take_defaults_for_baseline()
    setup, opaque = state.setup_lines(None)
    body |= {
        "setup": setup,
        "compile_kwargs": {name: state.literal_text(value) for name, value in compile_kwargs.items() if value},
        "grad": call.switches.grad and body["level"] == "dynamo",
    }
    about = {"kind": fault.kind, "what": fault.what, "call": fault.number, "program": sys.argv[0], "opaque": opaque}
    about["backward"] = is_backward and body["level"] == "dynamo"
    placeholders = dict(zip(module.graph.find_nodes(op="placeholder"), inputs, strict=True))
    found: dict[str, torch.Tensor] = {}
    for item in body["inputs"]:
        if key := item.get("golden"):
            node = names[key]
            value = placeholders[node] if node in placeholders else operator.attrgetter(str(node.target))(module)
            with torch._C.DisableTorchFunctionSubclass():
                value = value.clone() if value.is_inference() else value  # an inference tensor cannot require gradients
                found[key] = value.detach().requires_grad_(bool(item["meta"]["requires_grad"]))
    os.makedirs(folder)
    torch.save({**found, RNG: call.rng["torch"]}, os.path.join(folder, TENSORS))
    with open(os.path.join(folder, CAPTURE), "w") as file:
        json.dump({"program": body, "about": about}, file)


def _ones(call: Call) -> list[torch.Tensor]:
    with torch.enable_grad():
        outputs = tensors(call.function(*snapshot.clone(list(call.inputs))))
    return [torch.ones_like(output) for output in outputs if output.requires_grad]
