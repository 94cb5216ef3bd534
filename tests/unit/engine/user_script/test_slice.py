"""The slice of a script that a window needs."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from minimizer.engine.user_script.slice import namespaces_of, prelude

PASS = "torch._inductor.config.post_grad_custom_post_pass"

SCRIPT = """
import torch
import torch._inductor.config as config
from torch._inductor.custom_graph_pass import CustomGraphPass
import json

FACTOR = 2
UNUSED = json.dumps({})


class Pass(CustomGraphPass):
    def __call__(self, graph):
        return helper(graph) * FACTOR


def helper(graph):
    return graph


def model(x):
    return x + 1


config.post_grad_custom_post_pass = Pass()
print(model(torch.ones(1)))
"""


def test_a_setting_brings_along_what_it_uses_in_the_scripts_order() -> None:
    chunks = prelude(SCRIPT, settings=[PASS], namespaces=[])

    assert [chunk.splitlines()[0] for chunk in chunks] == [
        "import torch._inductor.config as config",
        "from torch._inductor.custom_graph_pass import CustomGraphPass",
        "FACTOR = 2",
        "class Pass(CustomGraphPass):",
        "def helper(graph):",
        "config.post_grad_custom_post_pass = Pass()",
    ]
    ast.parse("\n".join(chunks))


def test_nothing_is_sliced_where_nothing_is_asked_for() -> None:
    assert prelude(SCRIPT, settings=[], namespaces=[]) == ()


def test_the_nearest_earlier_binding_of_a_name_is_taken() -> None:
    script = "import torch._inductor.config as c\nk = 1\nk = 2\nc.joint_custom_post_pass = [k]\nk = 3\n"

    chunks = prelude(script, settings=["torch._inductor.config.joint_custom_post_pass"], namespaces=[])

    assert chunks == ("import torch._inductor.config as c", "k = 2", "c.joint_custom_post_pass = [k]")


def test_trap_11_a_custom_operator_comes_with_its_registrations() -> None:
    script = """import torch

@torch.library.custom_op("lib::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@scale.register_fake
def _(x):
    return torch.empty_like(x)

def other():
    pass
"""

    chunks = prelude(script, settings=[], namespaces=["lib"])

    assert [ast.parse(chunk).body[0].__class__.__name__ for chunk in chunks] == ["Import", "FunctionDef", "FunctionDef"]
    assert chunks[1].startswith("@torch.library.custom_op")
    assert chunks[2].startswith("@scale.register_fake")


PATCHES = """import torch
import torch._inductor.config as config
from torch._inductor import decomposition, lowering
from torch._inductor.lowering import lowerings, register_lowering
import torch.nn as nn

aten = torch.ops.aten
sigmoid = lowerings[aten.sigmoid.default]
lowerings[aten.tanh.default] = lambda x: sigmoid(x)
decomposition.decompositions.pop(aten.silu.default)
config.epilogue_fusion = False
LIMIT = 2

@register_lowering(aten.relu)
def relu(x):
    return x * LIMIT

@torch._dynamo.register_backend
def own(graph_module, inputs):
    return graph_module

@torch.compile
def model(x):
    return nn.functional.relu(x)

del lowering.lowerings[aten.sin.default]
x = torch.ones(3)
x[0] = 2
torch.manual_seed(0)
print(model(x))
"""


def test_what_changes_torch_itself_comes_along() -> None:
    chunks = "\n".join(prelude(PATCHES, settings=[], namespaces=[]))

    for part in (
        "lambda x: sigmoid(x)",
        "sigmoid = ",
        "decompositions.pop",
        "def relu",
        "LIMIT = 2",
        "def own",
        "del lowering",
    ):
        assert part in chunks
    for part in ("config", "model", "manual_seed", "x[0]", "nn"):
        assert part not in chunks
    ast.parse(chunks)


def test_a_backend_comes_along_by_its_name() -> None:
    script = "import torch\nK = 1\ndef own(graph, inputs):\n    return K\nprint(torch.compile(len, backend=own))\n"

    assert prelude(script, settings=[], namespaces=[], names=["own", "True", "'eager'"]) == (
        "K = 1",
        "def own(graph, inputs):\n    return K",
    )


def test_a_pass_brings_the_operators_that_it_puts_in() -> None:
    script = """import torch
@torch.library.custom_op("lib::checked", mutates_args=())
def checked(x: torch.Tensor) -> torch.Tensor:
    return x + 0
@checked.register_fake
def _(x):
    return torch.empty_like(x)
def insert(graph):
    next(iter(graph.nodes)).target = torch.ops.lib.checked.default
torch._inductor.config.joint_custom_post_pass = insert
"""
    assert "\n".join(prelude(script, settings=[PASS.replace("post_grad", "joint")], namespaces=[])) == script.strip()


def test_how_annotations_are_read_comes_along_with_definitions() -> None:
    """Else an annotation that names what is defined further down, or its own class, would raise."""
    script = "from __future__ import annotations\nimport torch\n{}\nprint(torch.compile(len, backend=own))\n"
    defined = script.format("def own(graph: Graph, inputs: list):\n    return graph")
    assert prelude(defined, settings=[], namespaces=[], names=["own"])[0] == "from __future__ import annotations"
    assert prelude(script.format("own = len"), settings=[], namespaces=[], names=["own"]) == ("own = len",)


def test_arguments_and_locals_of_a_function_bring_nothing_along() -> None:
    script = """import torch
x, y, z = 1, 2, 3
def own(graph, x, y=y):
    graph.eliminate_dead_code()
    z = [x for x in y]
    return z
print(torch.compile(len, backend=own))
"""
    assert prelude(script, settings=[], namespaces=[], names=["own"])[0] == "x, y, z = 1, 2, 3"
    assert prelude(script.replace("y=y", "y=0"), settings=[], namespaces=[], names=["own"])[0].startswith("def own")


def test_namespaces_are_those_of_custom_operators_only() -> None:
    targets = ["torch.relu", ".view", "torch.ops.aten.add.Tensor", "torch.ops.lib.scale.default", "operator.add"]

    assert namespaces_of(targets) == {"lib"}


OPENED = """import torch
import torch._inductor.config as config

def drop(graph):
    pass

def unused():
    config.b_custom_post_pass = drop

def train(width):
    config.c_custom_post_pass = drop

{main}
"""


@pytest.mark.parametrize(
    "main",
    [
        "def main():\n    config.a_custom_post_pass = drop\n    print(1)\n\nif __name__ == '__main__':\n    main()",
        "if __name__ == '__main__':\n    config.a_custom_post_pass = drop\n    print(1)",
        "with config.patch(a_custom_post_pass=drop):\n    print(1)",
        "with torch.no_grad(), config.patch({'a_custom_post_pass': drop}):\n    print(1)",
        "@config.patch(a_custom_post_pass=drop)\ndef main():\n    print(1)\n\nmain()",
    ],
    ids=["main", "main block", "with", "with a dict", "decorator"],
)
def test_what_is_set_inside_of_blocks_that_run_comes_along(main: str) -> None:
    settings = [f"torch._inductor.config.{name}_custom_post_pass" for name in "abc"]

    chunks = prelude(OPENED.format(main=main), settings=settings, namespaces=[])

    assert chunks == (
        "import torch._inductor.config as config",
        "def drop(graph):\n    pass",
        "config.a_custom_post_pass = drop",
    )


def test_a_function_that_calls_itself_is_opened_no_further() -> None:
    script = "import torch\ndef main():\n    torch.a = 1\n    main()\nmain()\n"

    assert "torch.a = 1" in prelude(script, settings=[], namespaces=[])


LIBRARY = 'import torch\nlib = torch.library.Library("lib", "DEF")\n'


def bodies(chunks: Sequence[str]) -> list[str]:
    return [ast.dump(statement) for chunk in chunks for statement in ast.parse(chunk).body]


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ('lib.define("""\nscale(Tensor x) -> Tensor\n""".strip())', 'lib.define("\\nscale(Tensor x) -> Tensor\\n".strip())'),
        ('lib.define(\n# at the margin\n    "scale(Tensor x) -> Tensor")', 'lib.define("scale(Tensor x) -> Tensor")'),
        ('lib.define("""\n    scale(Tensor x) -> Tensor""")', 'lib.define("\\n    scale(Tensor x) -> Tensor")'),
        ('return lib.define("scale(Tensor x) -> Tensor")', 'lib.define("scale(Tensor x) -> Tensor")'),
        ('return\n    lib.impl("scale", None)', None),
    ],
    ids=["string at the margin", "comment at the margin", "string in step", "returned", "never reached"],
)  # fmt: skip
def test_a_statement_of_a_function_comes_out_as_it_runs(block: str, found: str | None) -> None:
    chunks = prelude(f"{LIBRARY}def main():\n    {block}\nmain()\n", settings=[], namespaces=["lib"])

    assert bodies(chunks) == bodies([LIBRARY, *([found] if found else [])])


def test_statements_that_share_a_line_come_out_once_each() -> None:
    script = 'import torch; lib = torch.library.Library("lib", "DEF"); lib.define("scale(Tensor x) -> Tensor")\n'

    chunks = prelude(script, settings=[], namespaces=["lib"])

    assert len(chunks) == 3 and bodies(chunks) == bodies([script])


def test_a_block_on_one_line_leaves_its_condition_behind() -> None:
    script = "import torch._inductor.config as c\nif __name__ == '__main__': c.post_grad_custom_post_pass = len\n"

    assert prelude(script, settings=[PASS], namespaces=[])[1:] == ("c.post_grad_custom_post_pass = len",)


@pytest.mark.parametrize("separator", ["\f", "\u2028", "\x85"])
def test_lines_are_those_of_python(separator: str) -> None:
    script = f"TEXT = 'one{separator}two'\n{LIBRARY}lib.define(TEXT)\n"

    assert bodies(prelude(script, settings=[], namespaces=["lib"])) == bodies([script])


def test_functions_that_call_functions_again_and_again_are_opened_once() -> None:
    """Opened at every call, the last of them would come 3 ** 2000 times."""
    chain = "".join(f"def f{i}():\n" + f"    f{i + 1}()\n" * 3 for i in range(2000))
    script = f"import torch\n{chain}def f2000():\n    torch.a = 1\nf0()\n"

    assert prelude(script, settings=[], namespaces=[]) == ("import torch", "torch.a = 1")


def test_a_function_that_calls_itself_in_blocks_is_opened_no_further() -> None:
    script = f"{LIBRARY}def main():\n    with c.patch(a=1), c.patch(b=2):\n        with c.patch(c=3):\n            main()\nmain()\n"

    assert prelude(script, settings=[], namespaces=[]) == ()
