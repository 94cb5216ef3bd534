"""The modules next to a script: their files, their trees, and which of them an import runs."""

from __future__ import annotations

import ast
import symtable
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from importlib.util import decode_source
from pathlib import Path

from minimizer.engine.user_script.statements import script_lines
from minimizer.engine.user_script.unfolded import is_main_block
from minimizer.errors import Busy, InvalidScript
from minimizer.script_text import MAX_SCRIPT_BYTES, check_script

MAIN = "__main__"
MOST_MODULES, MOST_BYTES = 200, 4 << 20
"""Most modules next to a script to read, and most bytes of all together: their trees take up to a hundred times as
much.
"""
OF_THE_FILE = {"__file__", "__path__", "__package__", "__spec__", "globals"}
"""Names that make a module depend on its location, or on the names of its globals."""


class Module:
    """A script, or a module next to it.

    Args:
        name: dotted, from the script's folder; that of the script is `MAIN`.
        text: Python.
    """

    def __init__(self, name: str, file: Path, text: str) -> None:
        self.name, self.file, self.text = name, file, text

    @cached_property
    def lines(self) -> list[str]:
        return script_lines(self.text)

    @cached_property
    def body(self) -> list[ast.stmt]:
        """Its statements; for a module without documentation, and without statements for use as the script."""
        body = ast.parse(self.text).body
        return body if self.name == MAIN else [one for one in body if not is_main_block(one) and not _says_only(one)]

    @cached_property
    def bound(self) -> dict[str, bool]:
        """The names that it binds in its own scope, and whether only imports bind them."""
        found = (s for s in self._table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace())
        return {s.get_name(): not (s.is_assigned() or s.is_namespace()) for s in found}

    @cached_property
    def inner_names(self) -> frozenset[str]:
        """The names that a function, a class or a comprehension in it binds as its own."""
        symbols = (symbol for scope in _below(self._table) for symbol in scope.get_symbols())
        return frozenset(s.get_name() for s in symbols if s.is_local() or s.is_parameter())

    @cached_property
    def is_tied(self) -> bool:
        """Whether its meaning would change in the script's file."""
        scopes = (self._table, *_below(self._table))
        return any(symbol.get_name() in OF_THE_FILE for scope in scopes for symbol in scope.get_symbols())

    @cached_property
    def public(self) -> frozenset[str]:
        """The names that ``import *`` takes."""
        for statement in ast.parse(self.text).body:
            if isinstance(statement, ast.Assign) and _is_all(statement) and isinstance(statement.value, ast.List):
                return frozenset(str(one.value) for one in statement.value.elts if isinstance(one, ast.Constant))
        return frozenset(name for name in self.bound if not name.startswith("_"))

    @cached_property
    def _table(self) -> symtable.SymbolTable:
        return symtable.symtable(self.text, self.file.name, "exec")

    def base(self, statement: ast.ImportFrom) -> str:
        """The dotted name of the module that ``from ... import`` reads; empty if that is above the script's folder."""
        package = self.name if self.file.name == "__init__.py" else self.name.rpartition(".")[0]
        parts = package.split(".") if package else []
        if statement.level > len(parts):
            return ""
        above = parts[: len(parts) - statement.level + 1] if statement.level else []
        return ".".join([*above, *([statement.module] if statement.module else [])])


class Folder:
    """The modules in a script's folder, each read once.

    Raises:
        UnicodeDecodeError, SyntaxError: the script is no text.
    """

    def __init__(self, script: Path) -> None:
        self.script = Module(MAIN, script, decode_source(script.read_bytes()))
        self._root = script.parent
        self._known: dict[str, Module | None] = {}
        self._room = MOST_BYTES

    def module(self, name: str) -> Module | None:
        """The module of a dotted name; None if the folder has none, or none that can be moved to another file."""
        if name not in self._known:
            has_room = sum(module is not None for module in self._known.values()) < MOST_MODULES
            self._known[name] = self._read(name) if has_room else None
        return self._known[name]

    def loaded_by(self, name: str) -> list[Module]:
        """The modules that importing a dotted name runs: its packages first."""
        parts = name.split(".")
        dotted = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        return [module for name in dotted if (module := self.module(name)) is not None]

    def below(self, name: str) -> list[Module]:
        """The modules known so far in a package, at any depth."""
        known = (module for module in self._known.values() if module is not None)
        return [module for module in known if module.name.startswith(f"{name}.")]

    def _read(self, name: str) -> Module | None:
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts) or parts[0] in sys.stdlib_module_names:
            return None
        base = self._root.joinpath(*parts)
        with suppress(OSError, Busy, InvalidScript, SyntaxError, UnicodeDecodeError, RecursionError):
            for file in (base / "__init__.py", base.with_name(f"{base.name}.py")):
                # Its text goes into the repro: a link must not lead out of the folder.
                if file.is_file() and file.resolve().is_relative_to(self._root.resolve()):
                    module = Module(name, file, self._text(file))
                    return None if module.is_tied else module
        return None

    def _text(self, file: Path) -> str:
        """Raises: OSError, UnicodeDecodeError: it cannot be read.

        Busy, InvalidScript, SyntaxError: it is too large, no Python, or costs too much to parse.
        """
        size = file.stat().st_size
        if size > min(MAX_SCRIPT_BYTES, self._room):
            raise InvalidScript(f"{file.name} is too large")
        self._room -= size
        text = decode_source(file.read_bytes())
        if text.strip():
            check_script(text.encode(), file.name)  # checked like a script, since it is parsed here
        return text


def _says_only(statement: ast.stmt) -> bool:
    """Whether it is a docstring, or the ``__all__`` of ``import *``."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or (isinstance(statement, ast.Assign) and _is_all(statement))


def _is_all(statement: ast.Assign) -> bool:
    return [ast.unparse(target) for target in statement.targets] == ["__all__"]


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _below(child)
