"""Accepts scripts: text that parses as Python, within a parsing cost that is checked first.

The interpreter that runs the script decides which Python it is: each version has syntax that earlier ones refuse. A
tree takes up to a thousand times the memory of its text, and the interpreter does nothing else while it is built. So a
long text is parsed in a separate process with limits of memory and time, and not in a server's.
"""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from minimizer.errors import Busy, InvalidScript
from minimizer.notebook import is_notebook

MAX_SCRIPT_BYTES = 1 << 20
SHORT_CHARS = 32 << 10
"""Longest text that is parsed in this process: its tree takes at most 32 MiB, and a tenth of a second."""
PARSER_BYTES = 512 << 20
"""Memory for a longer one. A megabyte of the standard library takes 65 MiB, one of ``a;`` 900."""
PARSER_SECONDS = 5
_MOST_PARSERS = 2
_TURN_SECONDS = 2.0
"""For which a text waits for its turn: a thread of a server that waits longer is missed by others."""
_DEADLINE_SECONDS = 30.0
_turns = threading.BoundedSemaphore(_MOST_PARSERS)

# Without `try`: an exception prints itself as the last line of stderr.
_PARSER = f"""
import ast, json, resource, sys
print("parsing", flush=True)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, ({PARSER_BYTES}, {PARSER_BYTES}))
resource.setrlimit(resource.RLIMIT_CPU, ({PARSER_SECONDS}, {PARSER_SECONDS}))
text = sys.stdin.buffer.read().decode()
said = None
try:
    compile(text, "script", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
except SyntaxError as error:
    said = "syntax", error.msg, error.lineno
except ValueError as error:
    said = "value", str(error), None
except (RecursionError, MemoryError) as error:
    said = "large", str(error), None
print(json.dumps(said))
sys.stdout.flush()
import os
os._exit(0)  # taking the tree down again costs as much as making it
"""


def check_script(
    content: bytes, filename: str, max_bytes: int = MAX_SCRIPT_BYTES, *, python: Path | None = None
) -> str:
    """Return the text of a script, or raise the reason for refusing it.

    ``python``: the interpreter that runs it, and so knows its syntax; by default the one we run in. If that cannot run
    here, the syntax is not checked.

    Raises:
        InvalidScript: empty, a notebook, too large, not UTF-8, not Python, or Python that is too expensive to parse.
        Busy: too many long scripts are being parsed.
    """
    text = script_text(content, filename, max_bytes)
    try:
        if python is not None:
            if not _parse_apart(text, python):
                with suppress(SyntaxError):  # its parsing cost is still unknown
                    _parse_apart(text, Path(sys.executable))
        elif len(text) <= SHORT_CHARS:
            # Parsed and no more: the code of nested try/finally blocks doubles with every level.
            compile(text, filename, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        else:
            _parse_apart(text, Path(sys.executable))
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        raise InvalidScript(f"{filename} is not Python: {error.msg}{line}") from None
    except ValueError as error:  # a NUL, to Python before 3.11.4
        raise InvalidScript(f"{filename} is not Python: {error}") from None
    except (RecursionError, MemoryError) as error:
        raise InvalidScript(f"{filename} cannot be parsed as Python: {error}") from None
    return text


def script_text(content: bytes, filename: str, max_bytes: int = MAX_SCRIPT_BYTES) -> str:
    """The text of a script, whatever its syntax.

    Raises:
        InvalidScript: empty, a notebook, too large, or not UTF-8.
    """
    _refuse_notebook(content, filename)
    if not content.strip():
        raise InvalidScript(f"{filename} is empty: upload the Python script that fails under torch.compile")
    if len(content) > max_bytes:
        raise InvalidScript(f"{filename} has {len(content):,} bytes; at most {max_bytes:,} are accepted")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidScript(f"{filename} is not UTF-8 text (byte {error.start})") from None


def _refuse_notebook(content: bytes, filename: str) -> None:
    """Refuse a notebook where only scripts are accepted: its JSON mostly parses as Python.

    Raises:
        InvalidScript: it is one; the message says how to convert it.
    """
    if is_notebook(content):
        raise InvalidScript(
            f"{filename} is a Jupyter notebook, not a script: `minimizer run` and an upload take it by itself; here, make a script of it with "
            f"`jupyter nbconvert --to script {shlex.quote(filename)}`"
        )


def _parse_apart(text: str, python: Path) -> bool:
    """Parse a text in a separate, limited process of this Python; False if that Python does not run here.

    Raises:
        SyntaxError, ValueError, RecursionError: as `compile` does.
        MemoryError: it exceeds the limit of memory or time.
        Busy: too many are being parsed.
    """
    if not _turns.acquire(timeout=_TURN_SECONDS):
        raise Busy("Other long scripts are being read at the moment. Try again soon.")
    try:
        parser = subprocess.run(
            [python, "-I", "-S", "-c", _PARSER],
            input=text.encode(),
            capture_output=True,
            timeout=_DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Busy("This machine has no time to read a long script at the moment. Try again soon.") from None
    except OSError:
        return False
    finally:
        _turns.release()
    begun, *said = parser.stdout.splitlines() or [b""]
    if begun != b"parsing":
        return False
    match json.loads(said[0] if said else b'["large", "", null]'):
        case "syntax", message, line:
            raise SyntaxError(message, (None, line, None, None))
        case "value", message, _:
            raise ValueError(message)
        case "large", message, _:
            limits = f"it takes more than {PARSER_BYTES >> 20} MiB of memory or {PARSER_SECONDS} s; cut data out of it"
            raise MemoryError(message or limits)
    return True
