"""Launches of the script's own Triton kernels, captured by Dynamo as calls of an operator with ids for kernel and
constants.

Source text writes them like the script: ``scale_kernel[4, 1](source=x, target=out, count=1000, BLOCK=256)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from torch import fx

from ..values.bodies import nodes_of
from .names import path_of_global

OPERATORS = ("triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional")
"""Names of the operators in ``torch/_higher_order_ops/triton_kernel_wrap.py``."""


class Launch(NamedTuple):
    """A launch: the kernel with its grid as source text, and all arguments by name, in the order of the kernel's parameters."""

    kernel: str
    arguments: dict[str, Any]


def is_launch(node: fx.Node) -> bool:
    """Whether a node launches a kernel of the script's own."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") in OPERATORS


def launches_in(module: fx.GraphModule) -> Iterator[Any]:
    """The nodes of a graph, and of the bodies of its operators, that launch such kernels."""
    return filter(is_launch, nodes_of(module))


def launch_of(node: fx.Node, number: Callable[[fx.Node], Any]) -> Launch | None:
    """A node's launch; None if it has no source text.

    That is the case for a kernel that is no global of a module, or whose grid differs by configuration.

    Args:
        node: see `is_launch`.
        number: the value of a node in this call, for a grid computed from symbolic sizes.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    known: dict[str, Any] = dict(node.kwargs)
    if getattr(node.target, "__name__", "") != OPERATORS[0] or known.get("tma_descriptor_metadata"):
        return None
    kernel: Any = kernel_side_table.get_kernel(known["kernel_idx"])
    grids = {tuple(number(n) if isinstance(n, fx.Node) else n for n in grid) for grid in known["grid"]}
    name = _name_of(kernel)
    if name is None or len(grids) != 1 or not all(type(size) is int for size in next(iter(grids))):
        return None
    given = {**kernel_side_table.get_constant_args(known["constant_args_idx"]), **known["kwargs"]}
    parameters = [*kernel.arg_names, *sorted(given.keys() - set(kernel.arg_names))]
    return Launch(f"{name}[{_grid(next(iter(grids)))}]", {key: given[key] for key in parameters if key in given})


def modules_of(module: fx.GraphModule) -> list[str]:
    """Modules, other than the script, of the kernels launched by a graph or its bodies: its source text has to import
    them.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    names = (_name_of(kernel_side_table.get_kernel(node.kwargs["kernel_idx"])) or "" for node in launches_in(module))
    return list(dict.fromkeys(name.rpartition(".")[0] for name in names if "." in name))


def _name_of(kernel: Any) -> str | None:
    """The global bound to a kernel: of the module that defines it, with that module's path, or else of the script.

    An autotuned kernel wraps another one, which wraps the user's function.
    """
    function = kernel
    while hasattr(function, "fn"):
        function = function.fn
    return path_of_global(kernel, str(getattr(function, "__module__", "")))


def _grid(sizes: tuple[int, ...]) -> str:
    """A grid as an index; a single number gets a second, since a trailing comma would look odd."""
    return ", ".join(map(str, sizes if len(sizes) > 1 else (*sizes, 1)))
