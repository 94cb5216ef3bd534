"""Exact runs of whole scripts: what is found, by what name, and what is no alarm; with prints and logs, and without."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from children import script

from minimizer.engine.between import difference
from minimizer.engine.between.answer import BY_LIBRARY, Answer
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.between.script_runs import ALL, Children, ScriptRuns
from minimizer.engine.child.executor import Executor
from minimizer.inside.questions import Conditions, Plan

LOST = """
    import collections, torch
    events = collections.OrderedDict(a=1, b=2)
    @torch.compile
    def f(events, x):
        events.move_to_end("a")
        return x + 1
    for _ in range(1):
        print(f(events, torch.ones(2)))
    print(list(events))
"""
STALE = """
    import os, torch
    os.environ["FACTOR"] = "1"
    f = torch.compile(lambda x: x * int(os.getenv("FACTOR", "0")))
    for step in range(6):
        if step == 4:
            os.environ["FACTOR"] = "5"
        print(step, f(torch.ones(1)).item())
"""
LEAKED = """
    import torch
    @torch.compile
    def f(x, i):
        with torch.no_grad():
            return x.index_select(0, i)
    try:
        f(torch.ones(3), torch.tensor([99]))
    except IndexError:
        pass
    print(torch.is_grad_enabled())
"""
LATE = """
    import torch
    scale = {"s": 1.0}
    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()
        @staticmethod
        def backward(ctx, g):
            return g * scale["s"]
    f = torch.compile(lambda x: F.apply(x).sum())
    x = torch.ones(1, requires_grad=True)
    y = f(x)
    scale["s"] = 5.0
    y.backward()
"""
SKIPPED = """
    import torch
    @torch.compile
    def f(x, i):
        try:
            return x.index_select(0, i)
        except IndexError:
            return x
    try:
        f(torch.ones(3), torch.tensor([99]))
    except IndexError:
        pass
"""
BEHIND_ROUNDING = """
    import torch
    z = torch.arange(1, 65) / 7
    @torch.compile
    def blend(x, a, b):
        return torch.addcdiv(x, a, b, value=0.3)
    blended = blend(z, z.flip(0), z + 0.3)
    priority = {"a": 1, "b": 1}
    @torch.compile
    def f(x):
        return x * (1.0 if list(priority)[0] == "a" else 100.0)
    f(torch.ones(3))
    priority["a"] = priority.pop("a")
    f(torch.ones(3))
"""
ROUNDED = {
    "low_precision_inside": """
        h = torch.addcdiv(x.bfloat16(), a.bfloat16(), b.bfloat16(), value=0.3)
        return h.float() * 0.7
    """,
    "cancelled": "return torch.addcdiv(x, a, b, value=0.3) - (x + 0.3 * (a / b))",
    "cancelled_and_counted": """
        left = torch.addcdiv(x, a, b, value=0.3) - (x + 0.3 * (a / b))
        return left, (left != 0).sum()
    """,
    "nan_beside": "return torch.addcdiv(x, a * (a > 1), b * (a > 1), value=0.3)",
    "complex": """
        z = torch.complex(x, a)
        return torch.addcdiv(z, z.conj(), z + 1, value=0.3)
    """,
}
"""Bodies of a function that Dynamo traces with ``addcdiv`` in other operators, which round differently."""
HOOK_LEFT_OUT = """
    import torch
    class Guarded(torch.nn.Module):
        def forward(self, x):
            if x.shape[0] > 2:
                raise ValueError
            return x * 2
    layer, seen = Guarded(), {"errors": 0.5}
    def count(*_):
        seen["errors"] += 1
    layer.register_forward_hook(count, always_call=True)
    @torch.compile
    def f(x):
        try:
            return layer(x)
        except ValueError:
            return x
    for rows in (2, 3):
        f(torch.ones(rows))
"""
IN_A_POOL = """
    import os, torch
    from concurrent.futures import ThreadPoolExecutor
    os.environ["FACTOR"] = "1"
    f = torch.compile(lambda x: x * int(os.getenv("FACTOR", "0")))
    with ThreadPoolExecutor(2) as pool:
        first = list(pool.map(f, torch.ones(3, 2)))
        os.environ["FACTOR"] = "5"
        second = [pool.submit(f, torch.ones(2)).result().sum().item()]
    del first, second
"""
IN_A_THREAD = """
    import os, threading, torch
    os.environ["FACTOR"] = "1"
    f = torch.compile(lambda x: x * int(os.getenv("FACTOR", "0")))
    for factor in "15":
        os.environ["FACTOR"] = factor
        thread = threading.Thread(target=f, args=(torch.ones(2),))
        thread.start()
        thread.join()
"""
INSIDE_A_BACKWARD = """
    import os, torch
    os.environ["RATE"] = "1"
    w = torch.nn.Parameter(torch.ones(3))
    @torch.compile
    def step(p):
        return p.detach() - p.grad * int(os.getenv("RATE"))
    def hook(p):
        p.data = step(p)
        p.grad = None
    w.register_post_accumulate_grad_hook(hook)
    for i in range(4):
        if i == 2:
            os.environ["RATE"] = "3"
        (w * w).sum().backward()
"""
BESIDE_A_TIME = """
    import collections, time, torch
    sessions = collections.OrderedDict((name, time.time()) for name in "abc")
    @torch.compile
    def decode(order, name, x):
        order.move_to_end(name)
        return x + 1
    for _ in range(2):
        decode(sessions, "a", torch.ones(2))
        sessions["a"] = time.time()
"""
PRINTED = """
    import functools, time, torch
    @functools.lru_cache(None)
    def factor(n):
        return n + 1
    f = torch.compile(lambda x: x * factor(2))
    f(torch.ones(2))
    print(time.time())
    print(factor.cache_info().currsize)
"""
IN_A_DEFAULT = """
    import torch
    class Trace:
        def __init__(self, width, items=[]):
            self.items = items
            self.items.append(width)
            self.count = len(items)
    @torch.compile
    def f(x):
        return x * Trace(3).count
    for _ in range(3):
        print(f(torch.ones(2)))
"""
"""What is lost is held by nothing but a default value of ``__init__``; later calls return other numbers for it."""


FAULTS = {
    "in_a_default": (IN_A_DEFAULT, "Trace.__init__.__defaults__[0]", "call exit", 1),
    "hook_left_out": (HOOK_LEFT_OUT, "seen['errors']", "call exit", 2),
    "in_a_pool": (IN_A_POOL, "result", "call exit", 4_000_001),
    "in_a_thread": (IN_A_THREAD, "result", "call exit", 2_000_001),
    "inside_a_backward": (INSIDE_A_BACKWARD, "result", "call exit", 3),
    "beside_a_time": (BESIDE_A_TIME, "sessions", "call exit", 1),
    "behind_rounding": (BEHIND_ROUNDING, "result", "call exit", 3),
    "lost": (LOST, "events", "call exit", 1),
    "stale": (STALE, "result", "call exit", 5),
    "leaked": (LEAKED, "torch.is_grad_enabled()", "call exit", 1),
    "late": (LATE, "x.grad", "backward exit", 1),
    "skipped": (SKIPPED, "raised", "call exit", 1),
}
HEALTHY = {
    "compiled_autograd": """
        import torch
        torch._dynamo.config.compiled_autograd = True
        w = torch.ones(3, requires_grad=True)
        w.register_hook(lambda grad: grad * 2)
        @torch.compile
        def step(x):
            (x * w).sum().backward()
        step(torch.ones(3))
    """,
    "clocks_ids_and_draws": """
        import random, time, torch, uuid
        class Run:
            pass
        run, log = Run(), {}
        @torch.compile
        def f(x):
            return x.sin()
        for step in range(3):
            begun = time.time()
            y = f(torch.ones(4))
            run.seconds = int((time.time() - begun) * 10)
            run.name, run.token = uuid.uuid4().hex, random.random()
            log[id(y)] = hex(id(run))
    """,
    "constant_result": """
        import torch
        @torch._dynamo.assume_constant_result
        def size():
            return 2.0
        @torch.compile
        def f(x):
            return x * size()
        f(torch.ones(1))
    """,
    "is_compiling": """
        import torch
        ways = []
        @torch.compile
        def f(x):
            if torch.compiler.is_compiling():
                ways.append("compiled")
                return x + 1
            ways.append("eager")
            return x + 2
        f(torch.ones(1))
    """,
    "training": """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
        step, seen = torch.compile(model), []
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            loss = step(torch.randn(4, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
    """,
    "refused_by_dynamo": """
        import torch
        @torch.compile
        def f(x, y):
            return x @ y
        for size in (3, 4):
            try:
                f(torch.ones(3, 3), torch.ones(size, size))
            except RuntimeError:
                pass
    """,
    "torch_function_mode": """
        import torch
        from torch.overrides import TorchFunctionMode
        class Doubled(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {})) * 2 if func is torch.add else func(*args, **(kwargs or {}))
        f = torch.compile(lambda x: torch.add(x, torch.ones(2)))
        torch.set_default_device("cpu")
        with Doubled(), torch.device("cpu"):
            f(torch.ones(2))
    """,
    "replaced_function": """
        import torch
        original = torch.exp
        f = torch.compile(lambda x: torch.exp(x))
        f(torch.ones(1))
        torch.exp = lambda x: original(x) + 1
        f(torch.ones(1))
    """,
    "checkpointed_dropout": """
        import torch
        from torch.utils.checkpoint import checkpoint
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
        step, seen = torch.compile(lambda x: checkpoint(model, x, use_reentrant=False).sum()), []
        for _ in range(2):
            loss = step(torch.randn(2, 4))
            loss.backward()
            seen.append(loss.item())
            seen.append(int(torch.randint(100, ())))
    """,
    "nested_tensor": """
        import torch
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
        y = torch.compile(lambda x: x * 2)(nested)
    """,
    "counters": """
        import torch
        from torch.testing import assert_close
        f = torch.compile(lambda x: x + 1)
        f(torch.ones(1))
        graphs = dict(torch._dynamo.utils.counters["stats"])
    """,
    "in_threads": """
        import threading, torch
        from concurrent.futures import ThreadPoolExecutor
        net, seen = torch.nn.Linear(4, 4), []
        step = torch.compile(lambda x: net(x).relu())
        def work(n):
            loss = step(torch.full((2, 4), float(n))).sum()
            seen.append(n)
            return loss.item()
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(work, range(8)))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen.sort()
    """,
    "recomputed_in_backward": """
        import torch
        from torch.utils.checkpoint import checkpoint
        torch.manual_seed(0)
        inner = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
        outer, seen = torch.compile(lambda x: checkpoint(inner, x, use_reentrant=False).sum()), []
        for _ in range(2):
            x = torch.randn(2, 4, requires_grad=True)
            (outer(x) + checkpoint(inner, x, use_reentrant=False).sum()).backward()
            seen.append(x.grad.sum().item())
    """,
    "printed_times_and_files": """
        import pickle, tempfile, time, torch
        f = torch.compile(lambda x: x.sin())
        y = f(torch.ones(4))
        print("step", y.tolist())
        print("took", time.time())
        with open("log.txt", "w") as log:
            print(time.time(), file=log)
        torch.save({"y": y, "name": "y" * 3}, "y.pt")
        with tempfile.NamedTemporaryFile(delete=False) as file:
            pickle.dump({"y": "".join(["a", "b"]), "z": ["ab"]}, file)
    """,
    "nothing_compiled": "import torch\nx = torch.ones(1) + 1\n",
    "raises": "import torch\ntorch.compile(lambda x: x + 1)(torch.ones(1))\nraise ValueError\n",
}


class Quiet(ast.NodeTransformer):
    """Takes all that is printed or logged out; what it computes for that stays."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if not isinstance(call, ast.Call):
            return node
        name = ast.unparse(call.func)
        if name == "print" or name.startswith(("logging.", "logger.", "log.")):
            return ast.Expr(value=ast.Tuple(elts=list(call.args), ctx=ast.Load())) if call.args else ast.Pass()
        return node


def quiet(text: str) -> str:
    return ast.unparse(ast.fix_missing_locations(Quiet().visit(ast.parse(text))))


def compared(child: Executor, home: Path, text: str) -> Answer:
    text = textwrap.dedent(text)
    return ExactRuns(child, script(home, text), timeout=120).compare(text)


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.examples(4)
def test_a_fault_is_found(child: Executor, home: Path, name: str) -> None:
    text, path, event, number = FAULTS[name]

    found = compared(child, home, quiet(textwrap.dedent(text))).found

    assert found is not None
    seen = found.difference
    assert (seen.first.path, seen.look.event, seen.look.number) == (path, event, number)


@pytest.mark.quality("exact runs")
@pytest.mark.parametrize("name", HEALTHY)
def test_no_alarm(child: Executor, home: Path, name: str) -> None:
    answer = compared(child, home, HEALTHY[name])
    assert answer.found is None
    assert bool(answer.aside) == (name in ("nothing_compiled", "raises"))


@pytest.mark.quality("exact runs")
@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("count", [12, 64])
def test_other_roundings_are_no_fault_between_graphs(child: Executor, home: Path, name: str, count: int) -> None:
    body = textwrap.indent(textwrap.dedent(ROUNDED[name]).strip(), "    ")
    text = f"""
import torch
x = torch.arange(1, {count + 1}) / 7
@torch.compile
def f(x, a, b):
{body}
y = f(x, x.flip(0), x + 0.3)
print(y)
"""
    answer = compared(child, home, text)
    assert (answer.found, answer.aside, answer.ended) == (None, "", "")
    assert set(answer.not_compared) <= {BY_LIBRARY}


WEAK = """
        import gc, torch, weakref
        class Node:
            def __init__(self, parent=None):
                self.parent = weakref.ref(parent) if parent is not None else None
            def __del__(self):
                gone.append(1)
        gone, alive = [], weakref.WeakSet()
        @torch.compile
        def f(x, node):
            return x + (node.parent is not None)
        root = Node()
        for _ in range(3):
            node = Node(root)
            alive.add(node)
            f(torch.ones(2), node)
        del node
    """
"""Weak references and finalizers, which the compiler may keep waiting."""


def test_what_weak_references_find_at_the_end_is_the_same(child: Executor, home: Path) -> None:
    text = textwrap.dedent(WEAK)
    runs = ScriptRuns(Children(child, script(home, text), timeout=120), text, Conditions())
    eager, compiled = runs.logs(Plan(eager=ALL), Plan())
    assert eager is not None and compiled is not None
    assert difference.compared(eager, compiled) == difference.Comparison()
    *_, (_, end) = compiled.states()
    assert end["gone"]["length"] == "3"


def test_a_line_that_is_printed_is_seen_at_the_end(child: Executor, home: Path) -> None:
    text = textwrap.dedent(PRINTED)
    runs = ScriptRuns(Children(child, script(home, text), timeout=120), text, Conditions())
    eager, compiled = runs.logs(Plan(eager=ALL), Plan())
    assert eager is not None and compiled is not None
    seen = difference.compared(eager, compiled).difference
    assert seen is not None and seen.look.event == "end"
    assert "printed text[1]" in seen.paths


PADDED = """
    import os, torch
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.compile(torch.nn.TransformerEncoder(layer, 2).eval())
    x = torch.rand(2, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        y = encoder(x, src_key_padding_mask=padding)
"""
"""A module of torch's own, which chooses by ``is_compiling()`` what it computes of padding."""


@pytest.mark.quality("exact runs")
def test_what_torchs_own_modules_choose_where_they_are_compiled_is_no_fault(child: Executor, home: Path) -> None:
    answer = compared(child, home, PADDED)
    assert answer.found is None and not answer.aside and not answer.ended
    assert answer.not_compared == (BY_LIBRARY,)


@pytest.mark.quality("exact runs")
def test_a_fault_beside_what_torchs_own_modules_choose_is_found(child: Executor, home: Path) -> None:
    stale = STALE.replace("import os, torch", "").replace("f =", "g =").replace("f(torch", "g(torch")
    answer = compared(child, home, PADDED + stale)
    assert answer.found is not None and (answer.found.call, answer.found.conditions.library) == (6, True)
    assert answer.not_compared == (BY_LIBRARY,)


def test_a_fault_in_low_precision_is_one(child: Executor, home: Path) -> None:
    text = """
        import os, torch
        os.environ["FACTOR"] = "2"
        @torch.compile
        def f(x):
            return (x.bfloat16().exp() * int(os.getenv("FACTOR"))).float()
        for factor in "24":
            os.environ["FACTOR"] = factor
            f(torch.arange(40) / 9)
    """
    found = compared(child, home, text).found
    assert found is not None and found.call == 2


def test_a_healthy_script_takes_three_runs(child: Executor, home: Path) -> None:
    """Without the compiler, with Dynamo, and with AOTAutograd behind it."""
    assert compared(child, home, HEALTHY["training"]).runs == 3


def test_prints_and_logs_are_taken_out_and_what_they_compute_is_not() -> None:
    text = 'print("a", f(x))\nlogging.info(g())\nlogger.warning("b")\nprint()\ny = print\n'
    assert quiet(text) == "('a', f(x))\n(g(),)\n('b',)\npass\ny = print"
