"""A bounded walk over objects, each by its shortest path; what exceeds the bounds is hashed.

It keeps no references afterwards. An error on an object is counted (`Unseen`), and the walk goes on: nothing is ever
raised into the script.

Paths: ``a.b`` an attribute, ``a['k']`` and ``a[0]`` an item, ``a.<member>['k']`` a member of a set,
``a.<items>[1000:2000]`` the hashed items of a large container, ``a.<rest>`` everything beyond the bounds of a full
look, ``list(a)[0]`` and ``list(a.values())[0]`` a key that is an object, and its value.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .leaves import Entry
from .reach import SCALARS, bounded, hashed, scalar
from .unseen import WALK, Unseen

Children = Iterable[tuple[str, Any]]

MOST_ENTRIES = 50_000
"""Most entries of one look; the rest is hashed."""
MOST_VISITS = 200_000
"""Most objects that one look visits, including those only hashed."""
ITEMS = 1000
"""Items of one container with separate entries; the others are hashed, in parts of this size."""
DENSE_ITEMS = 20_000
"""The same in a look that shows which item differs."""
MOST_PARTS = 1000
"""Most parts of one container that are hashed."""
LONGEST_PATH = 1000
"""Characters; the walk does not follow longer paths."""
LONGEST_WORD = 1000
"""Most characters of one word of an entry; the other side refuses a log with more (`ExactLog`)."""


class Walk:
    """The queue of a walk, and its bounds; ``entries`` are the descriptions by path. A subclass describes objects.

    Args:
        unseen: counts what is left out.
        items: items of one container with separate entries; see `ITEMS`.
    """

    def __init__(self, unseen: Unseen, *, items: int) -> None:
        self._unseen, self._items = unseen, items
        self._paths: Any = {}
        """The first path of each object, by identity."""
        self._pending: collections.deque[tuple[str, Any]] = collections.deque()
        self._later: collections.deque[Callable[[], None]] = collections.deque()
        """Objects hashed after all others have a path: aliases refer to objects with their own path."""
        self._digest: Any = None
        """The hash that absorbs entries, while objects are only hashed."""
        self._alive: list[Any] = []
        """Objects kept alive until the walk is over, so that no id is reused meanwhile."""
        self.entries: dict[str, Entry] = {}
        self.visits = 0

    def add(self, roots: Children) -> Walk:
        """Walk these roots and all that can be reached from them; an object seen before is recorded as an alias."""
        self._pending.extend(roots)
        while self._pending:
            if len(self.entries) >= MOST_ENTRIES:
                self._postpone_rest()
                break
            path, value = self._pending.popleft()
            if path not in self.entries:
                self._visit(path, value)
        return self

    def put(self, path: str, entry: Entry) -> None:
        """Add an entry, with each word bounded: names of the script's attributes and classes may have any length."""
        path = path if len(path) <= LONGEST_PATH else bounded(path, LONGEST_PATH)
        told = entry
        if max(map(len, [*entry, *entry.values()]), default=0) > LONGEST_WORD:
            told = {bounded(name, LONGEST_WORD): bounded(word, LONGEST_WORD) for name, word in entry.items()}
        if self._digest is None:
            self.entries[path] = told
        else:
            self._digest.update(repr((path, told)).encode("utf-8", "surrogatepass"))

    def close(self) -> None:
        """Hash what was postponed, then drop all references that the walk has kept."""
        while self._later:
            self._later.popleft()()
        self._alive.clear()
        self._paths.clear()

    def hold(self, path: str, name_of: Callable[[int], str], values: list[Any], what: str = "items") -> None:
        """Walk the items of a container: `ITEMS` separately, and the others in parts, which are only hashed.

        ``name_of``: the path of an item, by its index. ``what``: the name for the parts.
        """
        are_scalars = SCALARS.issuperset(map(type, values))
        if self._digest is not None:
            if are_scalars:
                self._digest.update(_text_of(values))
            else:
                self._pending.extend((name_of(place), value) for place, value in enumerate(values))
            return
        for place, value in enumerate(values[: self._items]):
            if are_scalars:
                self.put(name_of(place), {"type": type(value).__name__, "value": scalar(value)})
            else:
                self._pending.append((name_of(place), value))
        size = max(ITEMS, -(-len(values) // MOST_PARTS))
        for start in range(self._items, len(values), size):
            stop = min(start + size, len(values))
            part = f"{path}.<{what}>[{start}:{stop}]"
            if are_scalars:
                self.put(part, {"type": "items", "value": f"#{hashed(_text_of(values[start:stop]))}"})
            else:
                self._postpone(part, [(name_of(place), values[place]) for place in range(start, stop)])

    def _enter(self, path: str, value: Any) -> Entry:
        """The entry of an object; its children are queued."""
        raise NotImplementedError

    def _visit(self, path: str, value: Any) -> None:
        """Add the entry of an object. An error of ours is counted, and the object is not observed."""
        self.visits += 1
        if len(path) > LONGEST_PATH:
            self._unseen.add(WALK, path)
            return
        try:
            entry = self._enter(path, value)
        except Exception:
            self._unseen.error(path)
            entry = {"unseen": "observer"}
        self.put(path, entry)

    # what is only hashed -------------------------------------------------------------------------------------------------

    def _postpone_rest(self) -> None:
        """Postpone everything still to be walked, by root."""
        by_root: dict[str, list[tuple[str, Any]]] = {}
        for path, value in self._pending:
            by_root.setdefault(path.partition(".")[0].partition("[")[0], []).append((path, value))
        self._pending.clear()
        for root, children in by_root.items():
            self._postpone(f"{root}.<rest>", children)

    def _postpone(self, path: str, children: Sequence[tuple[str, Any]]) -> None:
        """Add one entry for these objects and everything reachable from them: a hash, made after all other entries."""
        self._later.append(
            lambda: self.entries.update({path: {"type": "items", "value": f"#{self._hash_of(children)}"}})
        )

    def _hash_of(self, children: Iterable[tuple[str, Any]]) -> str:
        outer = self._pending, self._digest
        self._pending, self._digest = collections.deque(children), hashlib.blake2b(digest_size=8)
        try:
            while self._pending:
                if self.visits >= MOST_VISITS:
                    self._unseen.add(WALK, self._pending[0][0])
                    break
                self._visit(*self._pending.popleft())
            return str(self._digest.hexdigest())
        finally:
            self._pending, self._digest = outer

    def _hash_members(self, path: str, members: list[Any]) -> None:
        """The entry for members of a set that have no label: a hash of each by itself, in sorted order."""
        paths, hashes = self._paths, []
        for part in members:
            self._paths = collections.ChainMap({}, paths)
            hashes.append(self._hash_of([("", part)]))
        self._paths = paths
        self.put(path, {"type": "members", "value": f"#{hashed(' '.join(sorted(hashes)).encode())}"})


def _text_of(values: list[Any]) -> bytes:
    """A text of scalars that is equal for equal ones."""
    try:
        return repr(values).encode("utf-8", "surrogatepass")
    except ValueError:  # an int with too many digits
        return " ".join(map(scalar, values)).encode("utf-8", "surrogatepass")
