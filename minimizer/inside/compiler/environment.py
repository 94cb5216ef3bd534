"""Facts about the machine for a bug report, like PyTorch's ``collect_env``, gathered without computing on tensors."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys

import torch


def environment() -> dict[str, str]:
    """Versions and hardware by name; unknown ones are left out."""
    facts = {
        "torch": torch.__version__,
        "git_version": str(torch.version.git_version or "")[:12],
        "python": sys.version.split()[0],
        "cuda": torch.version.cuda or "",
        "rocm": torch.version.hip or "",
        "os": _os(),
        "glibc": platform.libc_ver()[1],
        "cpu": _cpu(),
        "gcc": _gcc(),
        "threads": str(len(os.sched_getaffinity(0))),
    }
    return {name: text for name, text in facts.items() if text}


def _os() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _cpu() -> str:
    """The processor's model and widest vector instructions, on which generated code depends."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 16)
    except OSError:
        return platform.machine()
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = set(text.split())
    widest = next((name for name in ("amx_tile", "avx512f", "avx2") if name in flags), "")
    return ", ".join(filter(None, (model[1].strip() if model else platform.machine(), widest)))


def _gcc() -> str:
    path = shutil.which(os.environ.get("CXX", "g++"))
    if path is None:
        return ""
    try:
        return subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
