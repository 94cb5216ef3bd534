"""Notebooks as scripts: what IPython alone understands becomes a comment, and all else stays as it is."""

from __future__ import annotations

import ast
import json

import pytest

from minimizer.errors import InvalidScript
from minimizer.notebook import is_notebook, script_of, taken


def notebook(*cells: str | list[str], kind: str = "code", **more: object) -> bytes:
    found = [{"cell_type": kind, "source": cell, "outputs": [], "execution_count": None} for cell in cells]
    return json.dumps({"cells": found, "nbformat": 4, "nbformat_minor": 5, **more}).encode()


@pytest.mark.parametrize(
    ("cell", "script"),
    [
        ("x = 1\nprint(x)", "x = 1\nprint(x)"),
        ("%matplotlib inline\nx = 1", "pass  # %matplotlib inline\nx = 1"),
        ("if True:\n    !pip install torch\nx = 1", "if True:\n    pass  # !pip install torch\nx = 1"),
        ("%time f(x)\n", "f(x)"),
        ("%timeit -n 10 f(x)\n", "f(x)"),
        ("%%time\nf(x)", "# %%time\nf(x)"),
        ("%%capture out\nf(x)", "# %%capture out\nf(x)"),
        ("%%bash\nls -l | wc", "# %%bash\n# ls -l | wc"),
        ("files = !ls\nx = 1", "files = None  # files = !ls\nx = 1"),
        ("torch.compile?", "pass  # torch.compile?"),
        # Python that looks like it:
        ("x = (7\n     % 4)", "x = (7\n     % 4)"),
        ('s = """\n%time f(x)\n!ls\n"""', 's = """\n%time f(x)\n!ls\n"""'),
        ('s = """\n!ls\n"""\n!ls', 's = """\n!ls\n"""\npass  # !ls'),
        ("a !=\\\nb", "a !=\\\nb"),
        ("x = 'a\u2028b'\n!ls", "x = 'a\u2028b'\npass  # !ls"),
    ],
)
def test_what_is_no_python_becomes_a_comment_at_its_line(cell: str, script: str) -> None:
    made = script_of(notebook(cell), "a.ipynb")
    assert made == f"# %% cell 1\n{script}\n"
    ast.parse(made)


def test_code_cells_stand_in_order_with_their_numbers() -> None:
    cells = json.loads(notebook("x = 1", ["y = 2\n", "z = 3"], "  \n", "print(x)"))
    cells["cells"].insert(1, {"cell_type": "markdown", "source": "# Training"})
    made = script_of(json.dumps(cells).encode(), "a.ipynb")
    assert made == "# %% cell 1\nx = 1\n\n# %% cell 2\ny = 2\nz = 3\n\n# %% cell 4\nprint(x)\n"


def test_what_ipython_shows_is_printed() -> None:
    made = script_of(notebook("display(1 + 1)"), "a.ipynb")
    assert made.startswith("display = print")
    assert "display" not in script_of(notebook("screen.display(1)"), "a.ipynb").partition("#")[0]


def test_a_line_that_is_neither_is_left_for_python_to_refuse() -> None:
    assert "for x in\n" in script_of(notebook("!ls\nfor x in"), "a.ipynb")


def test_a_notebook_is_taken_as_a_script_and_all_else_as_it_is() -> None:
    assert taken(notebook("x = 1"), "train.ipynb") == (b"# %% cell 1\nx = 1\n", "train.py")
    assert taken(b"x = 1\n", "train.py") == (b"x = 1\n", "train.py")
    about = b'import torch\nname = "{}.ipynb"\nkeys = {"cells": 1, "nbformat": 4}\n'
    assert not is_notebook(about)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (notebook(), "without code"),
        (notebook("# Title", kind="markdown"), "without code"),
        (notebook("x = 1", nbformat=3), "cannot be read as one of format 4"),
        (b'{"cells": 1, "nbformat": 4}', "cannot be read"),
        (b'{"cells": [], "nbformat": 4', "cannot be read"),
        (b'{"cells": ' + b"[" * 100_000 + b', "nbformat": 4}', "cannot be read"),
        (b'{"cells": "\xff", "nbformat": 4}', "cannot be read"),
    ],
)
def test_what_is_no_readable_notebook_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(InvalidScript, match=said):
        script_of(content, "a.ipynb")


def test_a_strangers_notebook_is_parsed_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(ast, "parse", lambda text: parsed.append(text) or compile(text, "a", "exec", ast.PyCF_ONLY_AST))
    made = script_of(notebook(*["!a\n" * 50] * 10, "!b\n" + "a;" * 10_000), "a.ipynb")
    assert len(parsed) == 100
    assert "\n!b\n" in made


def test_what_comes_from_the_future_comes_first() -> None:
    made = script_of(notebook("display(1)", "from __future__ import annotations\nx: y = 1"), "a.ipynb")
    assert made.startswith("from __future__ import annotations\ndisplay = print")
    compile(made, "a", "exec")


def test_half_a_surrogate_is_no_error_of_ours() -> None:
    content = json.dumps({"cells": [{"cell_type": "code", "source": "x = '\ud800'"}], "nbformat": 4}).encode()
    assert taken(content, "a.ipynb")[0] == b"# %% cell 1\nx = '?'\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line", ["%time " + "-n1 " * 100 + "-", "a " * 200 + "!", " " * 499, "a.b, " * 90, "!" * 100_000]
)
def test_a_strangers_line_takes_no_longer_than_another(line: str) -> None:
    """The expressions that look for IPython's lines try no way twice."""
    assert script_of(notebook(line + "\n!ls"), "a.ipynb")
