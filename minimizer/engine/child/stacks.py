"""Parses Python stacks as written by ``faulthandler``, and finds the place where several samples agree.

Samples of an endless loop differ in their innermost lines and helpers. They share the frame that holds the loop and all
its callers: their longest common prefix, counted from the outermost frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

MAX_FRAMES = 400
NEAR = 3
"""Most innermost frames in which samples of the same place may differ: the helpers that a loop calls."""

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*:$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$', re.MULTILINE)
_ENTRY = re.compile(
    r"torch/(_dynamo/convert_frame|_inductor/compile_fx|_functorch/(aot_autograd|_aot_autograd/\w+))\.py"
)
_COMPILER = re.compile(_ENTRY.pattern + "|torch/_inductor/(?!compile_worker/)")
"""Files of the compiler, without the threads that wait for its process pool."""
_WAITS = re.compile(
    r"(subprocess|selectors|threading|queue|concurrent/futures/\w+|multiprocessing/\w+|filelock/\w+|torch/utils/_filelock)\.py"
)
_COLLECTIVES = re.compile(r"torch/distributed/(distributed_c10d|_functional_collectives|rendezvous)\.py")
_DISPATCH = re.compile(r"torch/_ops\.py")
_DYNAMO, _FX = re.compile(r"torch/_dynamo/convert_frame\.py"), re.compile(r"torch/_inductor/compile_fx\.py")
_GENERATED = re.compile(r"<.*>|c[a-z0-9]{30,}\.py")
_ESCAPE = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U00(?:0[0-9a-f]|10)[0-9a-f]{4}")
_OURS = "minimizer/inside/"
_KERNELS = f"{_OURS}communication.py"
"""Our kernels in front of PyTorch's collectives: what is inside of one is the script's own call. A rank waits in that of `_WAIT`."""
_WAIT = "wait_tensor"
HEAP = re.compile(
    r"^(free|malloc|realloc|calloc)\(\): |^(double free|corrupted (size|double-linked list)|munmap_chunk\(\)|malloc_consolidate\(\))"
    r"|^\*\*\* stack smashing detected"
)
"""Messages of glibc when it finds its heap, or a stack, overwritten."""
_LAST_WORDS = re.compile(rf"^terminate called|^libc\+\+abi|\bAssertion .* failed|index out of bounds|{HEAP.pattern}")
_LIBRARY = re.compile(
    r".*/(?:site-packages|dist-packages)/(.+)"
    r"|.*/(torch/(?:_\w+|fx|nn|autograd|utils|distributed|export)/.+)"  # torch built from source
    r"|.*/lib/python3\.\d+/(.+)"
)


@dataclass(frozen=True)
class Frame:
    """A stack frame. ``file``: path below ``site-packages`` or the standard library, or the name of the user's file."""

    file: str
    function: str
    line: int
    is_users: bool

    @property
    def place(self) -> str:
        """A name that is equal in all processes: without the user's file, which trials run from another path."""
        return f"{'' if self.is_users else self.file}:{self.function}"


MOST_WORDS = 300
"""Most characters of a process's last words in a message."""

Stack = tuple[Frame, ...]
"""Outermost frame first."""


def parse(text: str) -> Stack:
    """The stack of the compiling thread in one dump, or else of the main thread, without our own frames."""
    threads = [_frames(block) for block in _THREAD.split(text)[1:]]
    if not threads:
        return ()
    return next((stack for stack in reversed(threads) if is_compiling(stack)), threads[-1])


def users(text: str) -> Stack:
    """The frames of the user's own code in a dump, of the main thread."""
    block = _THREAD.split(text)[-1]
    frames = [_frame(_unescaped(match[1]), match[2], match[3]) for match in islice(_FRAME.finditer(block), MAX_FRAMES)]
    return tuple(frame for frame in reversed(frames) if frame.is_users)


def readable(text: str, project: str) -> str:
    """The ``faulthandler`` dump of a process that crashed or hangs, without our frames and the machine's folders.

    The thread that died, or that compiles, comes first. Empty if the dump holds no stack.
    """
    begin = text.find("Fatal Python error:")
    text = text[begin:] if begin >= 0 else text
    head, *threads = re.split(r"^(?=(?:Current thread|Thread) 0x)", text, flags=re.MULTILINE)
    if not threads:
        return ""
    threads.sort(key=lambda block: not block.startswith("Current thread"))
    if begin < 0:
        threads.sort(key=lambda block: not is_compiling(_frames(block)))
    lines = [
        line for block in (head, *threads) for line in block.splitlines() if not line.startswith("Extension modules:")
    ]
    return "\n".join(shown for line in lines if (shown := _shown(line, project)) is not None).strip()


def _shown(line: str, project: str) -> str | None:
    match = _FRAME.match(line)
    if match is None:
        return line
    path = _unescaped(match[1])
    frame = _frame(path, match[2], match[3])
    if frame.file.startswith(_OURS) or path == "<frozen runpy>":
        return None
    file = path.removeprefix(f"{project}/") if frame.is_users else frame.file
    file = path.rpartition("/")[2] if file.startswith("/") or file == "<generated>" else file
    return f'  File "{file}", line {match[2]}, in {match[3]}'


def is_compiling(stack: Stack) -> bool:
    """Whether the compiler, or code that it generated, is running."""
    return any(_COMPILER.match(frame.file) for frame in stack)


def common(samples: Sequence[Stack]) -> Stack:
    """The frames that all samples share, outermost first; the last one holds the loop, if there is one."""
    found: list[Frame] = []
    for frames in zip(*samples, strict=False):
        if len({frame.place for frame in frames}) > 1:
            break
        found.append(frames[0])
        if len({frame.line for frame in frames}) > 1:  # the samples diverge here: they are in different calls
            break
    return tuple(found)


def culprit(chain: Stack) -> Frame | None:
    """The frame to name: the user's own pass or backend if the compiler called one, else torch's innermost frame."""
    inside = tuple(reversed(tuple(takewhile(lambda frame: not _ENTRY.match(frame.file), reversed(chain)))))
    named = [frame for frame in inside if not frame.function.startswith("<")]
    users = [frame for frame in named if frame.is_users]
    torch = [frame for frame in chain if frame.file.startswith("torch/") and not frame.function.startswith("<")]
    return next(iter(users), None) or next(iter(torch[-1:]), None) or next(iter(chain[-1:]), None)


def collective(chain: Stack) -> str:
    """The collective that it waits in; empty if none.

    Saving checkpoints, sharding and packing objects also run inside ``torch.distributed``, and may take any time.
    """
    inner = [frame for frame in chain if not _DISPATCH.match(frame.file)][-1:]
    return next((one.function for one in inner if _COLLECTIVES.match(one.file) and one.function[0] != "_"), "")


def is_at_compilation(chain: Stack) -> bool:
    """Whether a compilation is in progress, as opposed to a call of compiled code."""
    return any(_DYNAMO.match(frame.file) or (_FX.match(frame.file) and "compile" in frame.function) for frame in chain)


def agree(samples: Sequence[Stack]) -> bool:
    """Whether the samples show the same place: they differ in at most `NEAR` frames, or inside a pass of the user's."""
    chain = common(samples)
    if not chain:
        return False
    named = culprit(chain)
    deepest = max(map(len, samples))
    return (named is not None and named.is_users) or deepest - len(chain) <= NEAR


def is_waiting(chain: Stack) -> bool:
    """Whether it waits for another process or thread (a C++ compiler, a cache lock), outside of the user's code."""
    named = culprit(chain)
    return bool(chain) and bool(_WAITS.match(chain[-1].file)) and not (named is not None and named.is_users)


def _frames(text: str) -> Stack:
    frames = ((_unescaped(match[1]), match[2], match[3]) for match in _FRAME.finditer(text))
    found = [
        replace(frame, file="torch/distributed/_functional_collectives.py") if frame.file == _KERNELS else frame
        for frame in (_frame(*frame) for frame in islice(frames, MAX_FRAMES))
        if frame.file != _KERNELS or frame.function == _WAIT
    ]
    theirs = takewhile(lambda frame: not frame.file.startswith(_OURS), found)  # innermost first, as written
    return tuple(reversed(tuple(theirs)))


def _unescaped(path: str) -> str:
    """A path with ``faulthandler``'s escapes of non-ASCII letters decoded."""

    def letter(match: re.Match[str]) -> str:
        found = chr(int(match[0][2:], 16))
        return found if found.isprintable() else match[0]

    return _ESCAPE.sub(letter, path)


def _frame(path: str, line: str, function: str) -> Frame:
    number = int(line) if line.isdigit() and len(line) < 10 else 0
    if _OURS in path:
        return Frame(_OURS + path.rpartition("/")[2], function, number, False)
    if library := _LIBRARY.fullmatch(path):
        return Frame(next(filter(None, library.groups()))[:200], function[:200], number, False)
    name = path.rpartition("/")[2][:200]
    if _GENERATED.fullmatch(name):
        return Frame("<generated>", function[:200], number, False)
    return Frame(name, function[:200], number, True)


def overwrites_memory(log: str) -> bool:
    """Whether glibc reported an overwritten heap or stack as a process died."""
    return any(HEAP.search(line.strip()) for line in log.partition("Fatal Python error")[0].splitlines())


def last_words(log: str) -> str:
    """The last output of a process that died by a signal, such as C++'s ``what()``, in one line; empty if none.

    Only output of C++ and its library counts: the script's own output may end in anything.
    """
    lines = [line.strip() for line in log.partition("Fatal Python error")[0].splitlines() if line.strip()]
    at = next((index for index, line in enumerate(lines) if _LAST_WORDS.search(line)), len(lines))
    return "; ".join(lines[at:])[:MOST_WORDS]
