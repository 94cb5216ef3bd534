"""Runs calls of an exact run without the compiler, under any stance of the script, with ``is_compiling`` answered as if
compiled.

The script's own stance holds for compiled calls. A call that we run without the compiler stays uncompiled even if the
script sets another stance inside it; afterwards the script reads its own stance, as before.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from typing import Any

import torch
import torch._dynamo.external_utils
from torch._dynamo import eval_frame

from ..hooks import RUNS_IN_EAGER, required_for
from .wrappers import ASKED, Glances

IS_COMPILING = ("is_compiling", "is_dynamo_compiling")
LIBRARY = ("nn", "optim")
"""Packages of torch whose code, like a script's, may branch on whether it is compiled."""
OF_HOOKS = os.path.join("nn", "modules", "module.py")
"""The code there that chooses how hooks are run, which is the compiler's responsibility."""
ANSWER = "_minimizer_exact_answer"
"""Name under which a torch module holds our answer to `IS_COMPILING`."""


class Forced:
    """The calls that we run without the compiler.

    ``library``: whether `LIBRARY` also gets the compiled answer. ``glances``: records who asks.
    """

    def __init__(self, *, library: bool, glances: Glances | None = None) -> None:
        self._prior: Any = None
        self._glances = glances
        self._calls = 0
        self._lock = threading.RLock()
        inside = os.path.dirname(torch.__file__) + os.sep
        self._inside, self._hooks = inside, os.path.join(inside, OF_HOOKS)
        self._told = tuple(os.path.join(inside, package) + os.sep for package in LIBRARY) if library else ()
        required_for(RUNS_IN_EAGER)
        self._set_stance = eval_frame._set_stance
        self._keep_forced()
        for module in (torch.compiler, torch._dynamo.external_utils, torch._utils):
            for name in IS_COMPILING:
                original = getattr(module, name, None)
                if isinstance(original, types.FunctionType) and not original.__closure__:
                    _answer_by(original, self._is_told)

    @property
    def _is_on(self) -> bool:
        return self._calls > 0

    def begin(self) -> None:
        """Run a call without the compiler, until `end`.

        The stance is global to all threads: it lasts as long as any of their calls.
        """
        with self._lock:
            if not self._is_on:
                self._prior = eval_frame._stance
                self._set_stance(eval_frame.DynamoStance("force_eager"))
            self._calls += 1

    def end(self) -> None:
        """Restore the stance, or the one that the script has set meanwhile."""
        with self._lock:
            self._calls -= 1
            if not self._is_on:
                self._set_stance(self._prior)

    def _keep_forced(self) -> None:
        original = self._set_stance

        def set_stance(stance: Any) -> Any:
            if not self._is_on:
                return original(stance)
            prior, self._prior = self._prior, stance
            return prior

        set_stance._dynamo_forbidden = True  # type: ignore[attr-defined]
        eval_frame._set_stance = set_stance
        torch._dynamo.decorators._set_stance = set_stance  # type: ignore[attr-defined]

    def _is_told(self) -> bool:
        """Whether the caller gets the compiled answer: the script, if the call would be compiled.

        The rest of torch would treat its tensors as traced ones.
        """
        if not self._is_on or self._prior.stance == "force_eager":
            return False
        asker = sys._getframe(3)
        file = asker.f_code.co_filename
        if file.startswith(self._inside) and (not file.startswith(self._told) or file == self._hooks):
            return False
        return self._glances is None or not self._glances.sees_through(ASKED, asker)


def _answer_by(function: types.FunctionType, is_told: Any) -> None:
    """Make a function of torch answer yes if ``is_told`` does.

    The object stays the same: the script may hold it, and Dynamo knows it.
    """
    original = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    name = f"{ANSWER}_{function.__name__}"
    function.__globals__[name] = lambda: is_told() or original()
    function.__code__ = eval(f"lambda: {name}()").__code__.replace(co_name=function.__code__.co_name)
