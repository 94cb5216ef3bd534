"""Links a script with the modules next to it: replaces imports by the modules' statements, with one name per global.

A module stays imported, with everything that it imports, if linking it would change the program: it is used as an
object, is imported in a function or under a condition, or a new name for one of its globals would be shadowed by a
local one.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import NamedTuple

from minimizer.engine.user_script.beside import MAIN, Folder, Module

Import = ast.Import | ast.ImportFrom
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


class Global(NamedTuple):
    """A global name, by the module that binds it; a module itself has no ``name``."""

    module: str
    name: str = ""


@dataclass(frozen=True)
class Linked:
    """Statements, each with its module.

    ``names``: the name among them of each global of a module (``module.name``) and of the script.
    """

    statements: list[tuple[Module, ast.stmt]]
    names: Mapping[str, str]


def link(folder: Folder) -> Linked:
    """The statements of a script and of the modules next to it, as one script, in execution order.

    Raises:
        SyntaxError: the script is not Python.
        RecursionError: it has modules next to it, and is nested too deeply.
    """
    script = folder.script
    if not any(_read_by(script, statement, folder) for statement in _imports_in(script.body)):
        return Linked([(script, statement) for statement in script.body], {})
    kept: set[str] = set()
    while True:
        linker = _Linker(folder, kept)
        try:
            names = linker.names()
        except _StaysImported as stays:
            kept |= set(_reached_from(stays.module, folder))
        else:
            return Linked(list(linker.statements(names)), linker.by_path(names))


class _StaysImported(Exception):
    def __init__(self, module: str) -> None:
        super().__init__(module)
        self.module = module


class _Linker:
    """Links all modules except those in ``kept``, which stay imported."""

    def __init__(self, folder: Folder, kept: set[str]) -> None:
        self._folder, self._kept = folder, kept
        self._modules: dict[str, Module] = {}
        """The linked modules, the script first."""
        self._scopes: dict[str, dict[str, Global]] = {}
        """The meanings of the global names of each module."""
        self._elsewhere: dict[Global, str] = {}
        """The dotted paths of imports from elsewhere."""
        self._members: dict[ast.Attribute, Global] = {}
        """Attributes of linked modules, such as ``layers.Block``."""

    def names(self) -> dict[Global, str]:
        """The name of each global in the linked script.

        Raises:
            _StaysImported: a module has to stay imported.
        """
        self._read(self._folder.script)
        hidden: defaultdict[Global, set[str]] = defaultdict(set)
        for module in self._modules.values():
            for member in self._find_members(module):
                hidden[member] |= module.inner_names
        names: dict[Global, str] = {}
        taken: dict[str, Global] = {}
        for path, scope in self._scopes.items():
            for one in (Global(path, name) for name, stands_for in scope.items() if stands_for.module == path):
                names[one] = self._free_name(one, taken, hidden[one])
                taken.setdefault(names[one], one)
        used = chain(self._members.values(), *(scope.values() for scope in self._scopes.values()))
        for one in used:
            if one.name and one not in names:  # a circular import of a name that neither module has yet
                raise _StaysImported(one.module)
        for module in self._modules.values():
            self._check(module, names)
        return names

    def by_path(self, names: Mapping[Global, str]) -> dict[str, str]:
        """These names by all paths that lead to them: ``name`` in the script, ``module.name`` in the others."""
        return {
            name if module == MAIN else f"{module}.{name}": names[one]
            for module, scope in self._scopes.items()
            for name, one in scope.items()
            if one.name
        }

    def statements(self, names: Mapping[Global, str]) -> Iterator[tuple[Module, ast.stmt]]:
        """The statements of all modules with these names; a module's come at its first import."""
        members = {node: names[member] for node, member in self._members.items()}
        run: set[str] = set()

        def of(module: Module) -> Iterator[tuple[Module, ast.stmt]]:
            run.add(module.name)
            renamed = _Renamed(self._new_names(module, names), members)
            for statement in module.body:
                rest = statement
                if isinstance(statement, Import):
                    imports = list(self._imports(module, statement))
                    for one in chain.from_iterable(loaded for _, _, loaded in imports):
                        if one.name not in run:
                            yield from of(one)
                    left = [alias for alias, source, _ in imports if source is None]
                    if not left:
                        continue
                    rest = copy.copy(statement)
                    rest.names = left
                    if isinstance(rest, ast.ImportFrom) and rest.level:  # the linked script is in no package
                        rest.level, rest.module = 0, module.base(rest)
                yield module, renamed.visit(rest)

        return of(self._folder.script)

    def _read(self, module: Module) -> None:
        """Resolve the global names of a module and of those that it imports."""
        self._modules[module.name] = module
        scope = self._scopes[module.name] = {name: Global(module.name, name) for name in module.bound}
        top = [statement for statement in module.body if isinstance(statement, Import)]
        for statement in _imports_in(module.body):
            for alias, source, loaded in self._imports(module, statement):
                if statement not in top:
                    if source is not None:
                        raise _StaysImported(source.module)
                    continue
                for one in loaded:
                    if one.name not in self._modules:
                        self._read(one)
                self._bind(module, scope, statement, alias, source)

    def _bind(
        self, module: Module, scope: dict[str, Global], statement: Import, alias: ast.alias, source: Global | None
    ) -> None:
        """Record the meaning of the name that an import binds."""
        is_from = isinstance(statement, ast.ImportFrom)
        name = alias.asname or (alias.name if is_from else alias.name.partition(".")[0])
        own = Global(module.name, name)
        if source is None:
            if scope.get(name, own) != own:
                raise _StaysImported(scope[name].module)
            within = f"{module.base(statement)}." if isinstance(statement, ast.ImportFrom) else ""
            self._elsewhere[own] = f"{within}{alias.name}" if alias.asname or is_from else name
        elif name == "*":
            theirs = self._scopes[source.module]
            found = {name: theirs[name] for name in self._modules[source.module].public if name in theirs}
            if any(scope.get(name, one) != one for name, one in found.items()):
                raise _StaysImported(source.module)
            scope |= found
        else:
            one = self._member(source, alias.name) if is_from else source if alias.asname else Global(name)
            if not module.bound[name] or own in self._elsewhere or scope[name] not in (one, own):
                raise _StaysImported(source.module)  # another statement also binds the name
            scope[name] = one

    def _imports(self, module: Module, statement: Import) -> Iterator[tuple[ast.alias, Global | None, list[Module]]]:
        """Each alias of an import, the linked module that it reads (None: unchanged), and the modules that it runs."""
        for alias in statement.names:
            base = module.base(statement) if isinstance(statement, ast.ImportFrom) else alias.name
            wanted, run = {base}, self._folder.loaded_by(base)
            if isinstance(statement, ast.ImportFrom):
                wanted.add(f"{base}.{alias.name}")
                sub = self._folder.module(f"{base}.{alias.name}")
                run += [sub] if sub is not None else []
            is_linked = bool(run) and run[-1].name in wanted and not any(one.name in self._kept for one in run)
            yield (alias, Global(base), run) if is_linked else (alias, None, [])

    def _member(self, of: Global, name: str) -> Global:
        """The meaning of an attribute of a linked module."""
        found = self._scopes.get(of.module, {}).get(name)
        if found is not None:
            return found
        path = f"{of.module}.{name}"
        if any(module == path or module.startswith(f"{path}.") for module in self._scopes):
            return Global(path)
        raise _StaysImported(of.module)

    def _find_members(self, module: Module) -> Iterator[Global]:
        """The globals of linked modules that a module reaches as attributes."""
        modules = {name: one for name, one in self._scopes[module.name].items() if not one.name}
        for name in modules.keys() & module.inner_names:
            raise _StaysImported(modules[name].module)

        def stands_for(node: ast.AST) -> Global | None:
            if isinstance(node, ast.Name):
                return modules.get(node.id)
            of = stands_for(node.value) if isinstance(node, ast.Attribute) else None
            return self._member(of, node.attr) if of is not None and not of.name else None  # type: ignore[attr-defined]

        waiting: list[tuple[ast.AST, bool]] = [(statement, False) for statement in module.body]
        while waiting:
            node, is_inside = waiting.pop()
            found = stands_for(node)
            if found is None:
                inside = is_inside or isinstance(node, Scoped)
                waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
                continue
            is_set = not isinstance(getattr(node, "ctx", None), ast.Load)
            if not found.name or not isinstance(node, ast.Attribute) or (is_set and is_inside):
                raise _StaysImported(found.module)
            self._members[node] = found
            yield found

    def _free_name(self, one: Global, taken: Mapping[str, Global], hidden: Iterable[str]) -> str:
        """A name for a global: its own, unless that is taken, or shadowed where the global is used."""
        if one.name == "_" or one.module == MAIN:
            return one.name
        stem = one.module.rpartition(".")[2]
        others = chain([one.name, f"{stem}_{one.name}"], (f"{stem}_{one.name}_{number}" for number in count(2)))
        for name in others:
            is_same = name in taken and self._elsewhere.get(taken[name]) == self._elsewhere.get(one, "")
            if (name not in taken or is_same) and name not in hidden and not hasattr(builtins, name):
                return name
        raise AssertionError("numbers do not end")

    def _new_names(self, module: Module, names: Mapping[Global, str]) -> dict[str, str]:
        found = ((name, names[one]) for name, one in self._scopes[module.name].items() if one.name)
        return {name: new for name, new in found if new != name}

    def _check(self, module: Module, names: Mapping[Global, str]) -> None:
        """
        Raises:
            _StaysImported: a name would have to change in this module that cannot.
        """
        dotted = {
            alias.name.partition(".")[0]
            for statement in module.body
            if isinstance(statement, ast.Import)
            for alias in statement.names
            if not alias.asname and "." in alias.name
        }
        for name, new in self._new_names(module, names).items():
            if name in dotted or {name, new} & module.inner_names:
                raise _StaysImported(self._scopes[module.name][name].module)


class _Renamed(ast.NodeTransformer):
    """Edits statements in place. ``names``: the new ones of globals; ``members``: attributes that become names."""

    def __init__(self, names: Mapping[str, str], members: Mapping[ast.Attribute, str]) -> None:
        self._names, self._members = names, members

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node in self._members:
            return ast.copy_location(ast.Name(self._members[node], node.ctx), node)
        return self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.Global:
        node.names = [self._names.get(name, name) for name in node.names]
        return node

    def visit_alias(self, node: ast.alias) -> ast.alias:
        bound = node.asname or node.name
        if bound in self._names:
            node.asname = self._names[bound]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs):
            node.name = self._names.get(node.name or "", node.name)
        return super().generic_visit(node)


def _imports_in(body: Iterable[ast.stmt]) -> Iterator[Import]:
    """All imports in some statements, except those for a type checker only."""
    waiting: list[ast.AST] = [*reversed(tuple(body))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Import):
            yield node
        children: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            children = node.orelse
        waiting += [*children][::-1]


def _reached_from(name: str, folder: Folder) -> Iterator[str]:
    """A module, and those next to the script that run with it or through it; for a folder without a module, all below
    it.
    """
    waiting, seen = folder.loaded_by(name) or folder.below(name), set[str]()
    while waiting:
        module = waiting.pop()
        if module.name in seen:
            continue
        seen.add(module.name)
        yield module.name
        for statement in _imports_in(ast.parse(module.text).body):
            waiting += _read_by(module, statement, folder)


def _read_by(module: Module, statement: Import, folder: Folder) -> list[Module]:
    """The modules next to the script that an import runs."""
    found: list[Module] = []
    for alias in statement.names:
        path = f"{module.base(statement)}.{alias.name}" if isinstance(statement, ast.ImportFrom) else alias.name
        found += folder.loaded_by(path)
    return found
