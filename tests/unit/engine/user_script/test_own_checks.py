"""Checks of a script's own are taken away, and what they compare is still computed, in the same lines."""

from __future__ import annotations

import pytest

from minimizer.engine.user_script.own_checks import without_checks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("assert f(x) == 2, 'no'\n", "(f(x) == 2)\n"),
        ("assert f(\n    x\n) == 2\ny = 1\n", "(f(x) == 2)\n\n\ny = 1\n"),
        ("def t():\n    é = 'ä'; assert é == g()  # why\n", "def t():\n    é = 'ä'; (é == g())  # why\n"),
        (
            "import torch.testing as t\nt.assert_close(f(x), g(x), rtol=1)\n",
            "import torch.testing as t\n(f(x), g(x))\n",
        ),
        ("self.assertEqual(a, b)\n", "(a, b)\n"),
        (
            "import sys\nif a != b:\n    print('no')\n    sys.exit(1)\n",
            "import sys\nif a != b:\n    print('no')\n    pass\n",
        ),
        ("if bad: raise SystemExit('no')\n", "if bad: pass\n"),
    ],
)
def test_a_check_becomes_what_it_compares(text: str, expected: str) -> None:
    assert without_checks(text) == expected


def test_an_exception_of_another_name_is_a_check_only_where_it_is_the_one_that_ended_the_script() -> None:
    text = "if empty:\n    raise KeyError(name)\nif a != b:\n    raise Mismatch\n"
    assert without_checks(text) == text
    assert without_checks(text, "Mismatch") == "if empty:\n    raise KeyError(name)\nif a != b:\n    pass\n"


@pytest.mark.parametrize(
    "text", ["x = 1\nraise SystemExit(3)\n", "def f(:\n", "import sys\nsys.exit(main())\n", "f(x)\n"]
)
def test_a_script_without_checks_stays_as_it_is(text: str) -> None:
    assert without_checks(text) == text
