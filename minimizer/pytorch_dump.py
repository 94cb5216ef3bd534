"""Dumps of PyTorch: compiled graphs as Python files, parsed as data and rewritten as ordinary scripts.

PyTorch's minifier writes ``minifier_launcher.py`` and ``repro.py``, Inductor writes ``fx_graph_runnable.py``. Each
defines a module ``Repro`` and a function ``load_args``, and passes both to a ``run_repro`` of PyTorch's own, which
calls the compiler by another entry than ``torch.compile`` and judges by its own rules. Nothing here runs or imports the
content of a dump.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ABSENT = ("unsupported", "opaque", "generator")
"""Methods of a dump's reader that represent inputs which PyTorch could not save."""
READER = ("storage", "tensor", "symint", "const", *ABSENT)
"""All methods of `torch._dynamo.debug_utils.InputReader`."""
DRAWS = ("inductor_seed", "inductor_random", "inductor_randint", "inductor_lookup_seed")
"""Operators that draw from another random stream in eager than when compiled."""
LITERALS = ("tensor", "zeros", "ones", "full", "super", "device", "get_default_device")
"""Calls in the constructor of a dumped module that make the very values of the original."""
OF_THE_TOOL = ("torch._inductor.config.trace.", "torch._dynamo.config.repro_", "torch._dynamo.config.debug_dir_root")
"""Settings that made PyTorch write the dump, and are no part of what fails."""
OF_THE_RUN = re.compile(
    r"TORCHDYNAMO_REPRO|TORCH_COMPILE_DEBUG|TORCH_TRACE|TORCH_LOGS|CACHE|_TORCHINDUCTOR_|_DIR$|_HOME$|COMPILE_THREADS"
)
"""Environment variables for the observation of PyTorch, and for the places of its files."""
_CLASS = re.compile(r"^class Repro\(torch\.nn\.Module\):", re.MULTILINE)
_RUNNER = re.compile(r"^\s+from torch\._dynamo\.repro\.after_(aot|dynamo) import run_repro\b", re.MULTILINE)
_HEADER = re.compile(r"^from torch\._dynamo\.testing import rand_strided\b", re.MULTILINE)
GUARDS = ("__name__ == '__main__'", "'__compile_source__' in globals()")
"""Conditions under which a dump runs what serves PyTorch's tool only."""
CALL = """
from pathlib import Path
from torch._dynamo.debug_utils import InputReader

reader = InputReader(save_dir=str(Path(__file__).parent))
load_args(reader)
with torch.set_grad_enabled({grad}){autocast}:
    torch.compile(mod{options})(*reader.args)
"""


class Unusable(Exception):
    """A dump cannot be made into a script; the message is the reason, a clause without capital and period."""


@dataclass(frozen=True)
class PyTorchDump:
    """The contents of a dump.

    ``text`` is the module and ``load_args``, each statement at its original line. ``storages`` has the names of the
    files with the inputs' values, None for one that was not saved, and ``save_dir`` their parent folder.
    ``has_own_state``: whether the module initializes parameters or buffers, whose values PyTorch does not write down.
    ``variables``: environment variables of the original run that may matter, and are not set again.
    """

    text: str
    after: Literal["aot", "dynamo"]
    call: str
    save_dir: str | None
    storages: tuple[str | None, ...]
    has_own_state: bool
    variables: tuple[str, ...]

    @property
    def script(self) -> str:
        """An ordinary script: the module, compiled by `torch.compile` and called once, with the inputs in ``storages`` next to the script."""
        return f"{self.text}\n{self.call}"


def read(text: str) -> PyTorchDump | None:
    """Read a dump; None if the text is another script.

    Raises:
        Unusable: it is a dump that is cut off, or whose graph means nothing without the program around it.
    """
    if not _CLASS.search(text) or not (_RUNNER.search(text) or _HEADER.search(text)):
        return None
    try:
        return _read(text)
    except (RecursionError, MemoryError):
        raise Unusable("its expressions are nested too deeply") from None


def _read(text: str) -> PyTorchDump | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        if _RUNNER.search(text):
            raise Unusable("it is no Python") from None
        return None
    behind = _behind_module(tree)
    if behind is None:
        return None  # a dump is only quoted
    run = next((call for call in _calls(tree) if isinstance(call.func, ast.Name) and call.func.id == "run_repro"), None)
    runner = _RUNNER.search(text)
    if run is None or runner is None:
        if all(_is_of_a_dump(statement) for statement in behind):
            raise Unusable("it is cut off: its end, a call of run_repro, is missing")
        return None  # already edited into an ordinary script
    reads = _reads(tree)
    _require_usable(tree, reads)
    after: Literal["aot", "dynamo"] = "dynamo" if runner[1] == "dynamo" else "aot"
    return PyTorchDump(
        text=_kept(text, tree),
        after=after,
        call=_call(run, after, text),
        save_dir=_keyword(run, "save_dir"),
        storages=tuple(_storage(call) for name, call in reads if name == "storage"),
        has_own_state=_has_own_state(tree),
        variables=tuple(name for name in _variables(tree) if not OF_THE_RUN.search(name)),
    )


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _reads(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """The calls of the reader's methods, in the order of the text, each with the method's name."""
    found = [
        (call.func.attr, call)
        for call in _calls(tree)
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "reader"
    ]
    return sorted(found, key=lambda one: (one[1].lineno, one[1].col_offset))


def _require_usable(tree: ast.Module, reads: list[tuple[str, ast.Call]]) -> None:
    functions = {statement.name for statement in tree.body if isinstance(statement, ast.FunctionDef)}
    modules = [
        target.id
        for one in tree.body
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
    ]
    for what, is_there in (("load_args", "load_args" in functions), ("mod", "mod" in modules)):
        if not is_there:
            raise Unusable(f"it is cut off: it hands {what} to run_repro, and does not define it")
    if unknown := next((name for name, _ in reads if name not in READER), None):
        raise Unusable(f"its load_args calls reader.{unknown}, which this version does not know")
    if any(name in ABSENT for name, _ in reads):
        raise Unusable("what it was called with was not kept")
    named = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    if any(name.startswith(DRAWS) for name in named):
        raise Unusable("it draws random numbers as only inductor does")
    if any(name.startswith("triton_kernel_wrapper") for name in named):
        raise Unusable("it calls a Triton kernel of the user's as only the compiler can")
    if any(isinstance(call.func, ast.Name) and call.func.id == "setup_fake_process_groups" for call in _calls(tree)):
        raise Unusable("it communicates with other ranks, which it does not contain")


def _behind_module(tree: ast.Module) -> list[ast.stmt] | None:
    """The statements after the class ``Repro``; None without such a class."""
    for place, statement in enumerate(tree.body, 1):
        if isinstance(statement, ast.ClassDef) and statement.name == "Repro":
            return tree.body[place:]
    return None


def _is_of_a_dump(statement: ast.stmt) -> bool:
    """Whether PyTorch writes this statement between the module and its end."""
    if isinstance(statement, ast.FunctionDef):
        return statement.name == "load_args"
    return ast.unparse(statement) in ("mod = Repro()", "load_args._version = 0")


def _keyword(call: ast.Call, name: str) -> str | None:
    """The text passed to a keyword of a call; None if there is none."""
    value = next((one.value for one in call.keywords if one.arg == name), None)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _storage(call: ast.Call) -> str | None:
    """The name of the file with a storage's values; None if they were not saved."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _call(run: ast.Call, after: str, text: str) -> str:
    """The end of the script, with the mode, the backend and the autocast that ``run_repro`` was to use."""
    backend = _keyword(run, "backend") if after == "dynamo" else None
    is_cast = any(
        one.arg == "autocast" and isinstance(one.value, ast.Constant) and one.value.value for one in run.keywords
    )
    device = re.search(r"device\(type='(\w+)'", text)
    return CALL.format(
        grad=after == "dynamo",
        autocast=f", torch.autocast({device[1] if device else 'cpu'!r})" if is_cast else "",
        options=(f", backend={backend!r}" if backend else "")
        + (", dynamic=True" if _keyword(run, "tracing_mode") == "symbolic" else ""),
    )


def _has_own_state(tree: ast.Module) -> bool:
    """Whether the module's constructor calls anything that draws values: a torch module, or ``torch.randn``."""
    for owner in (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "Repro"):
        for method in (one for one in owner.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"):
            names = [
                call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                for call in _calls(method)
            ]
            if any(name not in (*LITERALS, "__init__", "register_buffer", "Parameter") for name in names):
                return True
    return False


def _variables(tree: ast.Module) -> Iterator[str]:
    """The names of the environment variables that a dump sets."""
    for statement in tree.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) == "os.environ":
            yield ast.unparse(target.slice).strip("'")


def _is_of_the_tool(statement: ast.stmt) -> bool:
    """Whether a statement serves PyTorch's tool only: it runs it, or sets up its variables, caches and traces."""
    if isinstance(statement, ast.If):
        return ast.unparse(statement.test) in GUARDS
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return False
    text = ast.unparse(statement) if isinstance(statement, ast.Assign | ast.Expr) else ""
    return "os.environ" in text or text.startswith(OF_THE_TOOL)


def _kept(text: str, tree: ast.Module) -> str:
    """The text without the tool's statements; all others keep their lines, so that reported lines can be found in the
    dump.
    """
    lines = text.split("\n")  # as Python counts them
    for statement in tree.body:
        first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        if _is_of_the_tool(statement):
            lines[first:last] = [""] * (last - first)
        elif first + 1 == last and lines[first] == "mod = Repro()":
            lines[first] = "torch.manual_seed(0); mod = Repro()"  # made-up values are the same in every run
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "\n".join(lines) + "\n"
