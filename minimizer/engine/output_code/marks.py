"""Finds the lines of a kernel that compute the culprit, as far as that can be determined.

Inductor inlines operators into each other without recording the origin of a statement, but there are two clues. If a
kernel computes nothing but the culprit, as in most minimal repros, all of its arithmetic is the culprit's. If the
culprit was fused with other operators, a statement is the culprit's if its form matches some ATen operator of the
culprit, and none of the others. Without either clue nothing is marked. For a kernel that does not compile, the C++
compiler has named the lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from minimizer.inside.rulings import CASTS
from minimizer.report.generated_code import Language

Sort = Literal["arithmetic", "cast", "load", "constant", "store"]
SORTS: tuple[Sort, ...] = ("arithmetic", "cast", "load", "constant", "store")
"""Types of statements.

If the culprit has none of one type, those of the next are its own: a flip is a load from elsewhere.
"""
LONGEST = 2000
"""Characters of the longest line to examine."""
CPP_STATEMENT = re.compile(r"^(?:[\w:<>, ]{1,200} )?(tmp\w*) = (.+);$")
TRITON_STATEMENT = re.compile(r"^(_?tmp\w*) = (.+)$")
CPP_STORE = re.compile(r"\.store\(|^\w*out_ptr\d+\[[^=]{1,500}\] = |atomic_add")
TRITON_STORE = re.compile(r"^tl\.(?:store|atomic_\w+)\(")
CAST = re.compile(r"^(?:(?:c10|at::vec)::convert<.*>|static_cast<.*>)\(tmp\w*\)$|^tmp\w*\.to\(tl\.\w+\)$")
LOAD = re.compile(r"loadu\(|_ptr\d+\[|local_buffer|^tl\.load\(|gather\(")
SPREAD = re.compile(
    r"^at::vec::Vectorized(?:N)?<[^()]*>\(tmp\w*\)$|^tl\.(?:broadcast_to|full)\(|^tmp\w*(?:\[[^\]]*\])+$"
)
VARIES = re.compile(r"\b(?:_?tmp\w*|[xyzr]\d+\w*|\w*index)\b")
WRITTEN: dict[str, str] = {
    "add": r" \+ ", "sub": r" - ", "rsub": r" - ", "mul": r" \* |square\(", "div": r" / |div_rn|truncdiv|floordiv", "neg": r"^-|\.neg\(|= -",
    "relu": r"clamp_min|maximum|max_propagate_nan", "maximum": r"maximum|max_propagate_nan", "amax": r"maximum|max_propagate_nan|max2",
    "clamp_min": r"clamp_min|maximum|max_propagate_nan", "clamp_max": r"clamp_max|minimum|min_propagate_nan", "minimum": r"minimum|min_propagate_nan",
    "amin": r"minimum|min_propagate_nan|min2", "clamp": r"clamp|m[ai][xn]imum|(?:max|min)_propagate_nan",
    "where": r" \? .* : |blendv|tl\.where", "sum": r"tmp_acc\w* \+ |sum_masked_reduce|tl\.sum|cascade_sum|^_?tmp\w* \+ ", "mean": r"tmp_acc\w* \+ |sum_masked_reduce|tl\.sum|cascade_sum| / ",
    "gt": r" > ", "lt": r" < ", "ge": r" >= ", "le": r" <= ", "eq": r" == ", "ne": r" != ", "bitwise_and": r" & ", "bitwise_or": r" \| ",
    "sigmoid": r"sigmoid\(|decltype\(tmp\w*\)\(1\)/", "pow": r"pow\(|(tmp\w+) \* \1\b", "bitwise_xor": r" \^ ", "logical_not": r"!|== 0", "bitwise_not": r"~|== 0", "reciprocal": r"reciprocal|^(?:1|tmp\w*) / ",
    "convert_element_type": r"convert<|static_cast<.*>\(tmp|\.to\(tl\.", "_to_copy": r"convert<|static_cast<.*>\(tmp|\.to\(tl\.",
}  # fmt: skip
"""Forms in the code of operators that do not appear by name."""
BY_NAME = frozenset({
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1",
    "floor", "fmod", "hypot", "isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2", "nextafter", "rsqrt", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
})  # fmt: skip
"""Operators that appear in the code by name."""
BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
WRAPPED = re.compile(r"^(?:float|double|int64_t|int32_t)?\((.*)\)$")
SAYS_NOTHING = frozenset({
    "view", "reshape", "_unsafe_view", "expand", "permute", "t", "transpose", "unsqueeze", "squeeze", "clone", "detach", "alias", "full",
    "as_strided", "slice", "select", "getitem",
})  # fmt: skip
"""Operators that compute nothing: statements cannot be distinguished from theirs."""
KNOWN = BY_NAME | SAYS_NOTHING | frozenset(WRITTEN)
ALL_CASTS = CASTS | {"to_dtype"}
"""Operators that cast, Inductor's own among them."""
ERROR = re.compile(r"\.cpp:(\d{1,6}):\d+: error: [^\n]*\n\s*\d+ \| ([^\n]*)")
MOST_ERRORS = 50


def errors_in(code: str, output: str) -> list[int]:
    """The lines, from 1, that a C++ compiler reported as wrong, and quoted as they are."""
    lines = code.split("\n")
    found = set[int]()
    for error in list(ERROR.finditer(output))[:MOST_ERRORS]:
        number = int(error[1])
        if 0 < number <= len(lines) and lines[number - 1].strip() == error[2].strip() != "":
            found.add(number)
    return sorted(found)


def all_of(code: str, language: Language, operators: Collection[str]) -> list[int]:
    """The lines, from 1, of a kernel that computes nothing but ``operators``: its arithmetic, or else the next type of
    statement.
    """
    sorts = _sorts(code, language)
    is_cast = bool(ALL_CASTS.intersection(operators))
    wanted: list[set[Sort]] = [{"arithmetic", "cast"} if is_cast else {"arithmetic"}, *({sort} for sort in SORTS[1:])]
    return next((lines for one in wanted if (lines := [n for n, sort, _ in sorts if sort in one])), [])


def told_apart(code: str, language: Language, own: Collection[str], others: Collection[str]) -> list[int]:
    """The lines, from 1, whose form matches an operator among ``own``, and none of the others.

    None if the form of one of the others is unknown.
    """
    if not KNOWN.issuperset(others):
        return []
    ours, theirs = _patterns(own), _patterns(others)
    return [
        number
        for number, sort, text in _sorts(code, language)
        if sort in ("arithmetic", "cast")
        and any(pattern.search(text) for pattern in ours)
        and not any(pattern.search(text) for pattern in theirs)
    ]


def left_over(code: str, language: Language, others: Collection[str]) -> list[int]:
    """The lines, from 1, with arithmetic that matches none of the ``others``; none if the form of one of those is
    unknown.

    This finds statements of unexpected form, as a wrong lowering writes them. The others are right, and appear as
    single steps: ``tmp0 * tmp1``, ``tmp0.exp()``.
    """
    needed = set(others) - SAYS_NOTHING - ALL_CASTS
    if not needed <= BINARY.keys() | BY_NAME:
        return []
    forms = [_alone(name) for name in needed]
    return [
        number
        for number, sort, text in _sorts(code, language)
        if sort == "arithmetic" and not any(form.fullmatch(WRAPPED.sub(r"\1", text)) for form in forms)
    ]


def _alone(name: str) -> re.Pattern[str]:
    """Matches a statement that consists of this operator only."""
    if (sign := BINARY.get(name)) is not None:
        return re.compile(rf"tmp\w+ {re.escape(sign)} tmp\w+")
    return re.compile(rf"(?:std::|libdevice\.|tl_math\.|tl\.)?{name}\(tmp\w+\)|tmp\w+\.{name}\(\)")


def _patterns(operators: Iterable[str]) -> Sequence[re.Pattern[str]]:
    names = set(operators) - SAYS_NOTHING
    return [re.compile(WRITTEN.get(name) or rf"\b{re.escape(name.strip('_'))}\w*\(") for name in names]


def _sorts(code: str, language: Language) -> list[tuple[int, Sort, str]]:
    """The statements of a kernel with their lines, types, and right-hand sides."""
    statement, store = (CPP_STATEMENT, CPP_STORE) if language == "cpp" else (TRITON_STATEMENT, TRITON_STORE)
    found: list[tuple[int, Sort, str]] = []
    for number, line in enumerate(map(str.strip, code.split("\n")), 1):
        if len(line) > LONGEST:
            continue
        if store.search(line):
            found.append((number, "store", line))
        elif (matched := statement.match(line)) is not None:
            found.append((number, _sort(matched[2]), matched[2]))
    return found


def _sort(value: str) -> Sort:
    if CAST.search(value):
        return "cast"
    if LOAD.search(value):
        return "load"
    if SPREAD.search(value) or not VARIES.search(value):
        return "constant"
    return "arithmetic"
