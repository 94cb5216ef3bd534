"""What the processor can do is asked once for all processes that share a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch._inductor import codecache, config, cpu_vec_isa

from minimizer.inside.compiler.processor import remember_headers, remember_probes


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The probes that were built; those for ``AMX`` do not load."""
    built: list[str] = []

    def check_build(isa: Any, code: str) -> bool:
        built.append(f"{code} {isa.build_arch_flags()}")
        return code != "AMX"

    monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", check_build)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    remember_probes()
    return built


def test_each_probe_is_built_once(asked: list[str]) -> None:
    isa = cpu_vec_isa.VecAVX2()
    assert [isa.check_build("AMX"), isa.check_build("AVX")] == [False, True]
    assert [cpu_vec_isa.VecAVX2().check_build("AMX"), cpu_vec_isa.VecAVX2().check_build("AVX")] == [False, True]
    assert [probe.split()[0] for probe in asked] == ["AMX", "AVX"]


def test_another_compiler_another_flag_and_another_cache_are_asked_anew(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    isa = cpu_vec_isa.VecAVX2()
    isa.check_build("AVX")
    isa._arch_flags += " -mavx512bf16"
    isa.check_build("AVX")
    with config.patch("cpp.cxx", (None, "clang++")):
        isa.check_build("AVX")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "fresh"))
    isa.check_build("AVX")
    assert len(asked) == 4


def test_a_cache_that_cannot_be_written_to_ends_nothing(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "probes").write_text("not a folder")
    assert [cpu_vec_isa.VecAVX2().check_build("AVX") for _ in range(2)] == [True, True]
    assert len(asked) == 2


def test_the_name_of_a_header_is_found_out_once_as_long_as_it_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def precompile_header(header: str, hashable_cmd_line: str, **compile_command: Any) -> str:
        asked.append(f"{header} {hashable_cmd_line} {compile_command['device']}")
        path = tmp_path / f"{len(asked)}.h"
        path.with_suffix(".h.gch").write_text("")
        return str(path)

    monkeypatch.setattr(codecache, "_precompile_header", precompile_header)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    remember_headers()
    find = codecache._precompile_header
    first = find("prefix.h", "-O3", device="cpu")
    assert find("prefix.h", "-O3", device="cpu") == first and len(asked) == 1
    others = [
        find("prefix.h", "-O0", device="cpu"),
        find("other.h", "-O3", device="cpu"),
        find("prefix.h", "-O3", device="cuda"),
    ]
    assert len({first, *others}) == 4
    Path(f"{first}.gch").unlink()
    assert find("prefix.h", "-O3", device="cpu") != first
