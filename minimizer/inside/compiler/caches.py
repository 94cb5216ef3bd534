"""The compiler's caches of whole graphs. This process's environment turns them off, with priority over every setting."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch._functorch.config
import torch._inductor.config
from torch._inductor.utils import fresh_cache
from torch.utils import _config_module

from ..hooks import required

SETTINGS = (
    (torch._inductor.config, "fx_graph_cache", "TORCHINDUCTOR_FX_GRAPH_CACHE"),
    (torch._functorch.config, "enable_autograd_cache", "TORCHINDUCTOR_AUTOGRAD_CACHE"),
)


def turn_on(*, only_inductor: bool) -> None:
    """Turn them on whatever the script sets, or only Inductor's."""
    required(_config_module._ConfigEntry, "env_value_force")
    for config, name, _ in SETTINGS:
        config._config[name].env_value_force = not only_inductor or config is torch._inductor.config


@contextlib.contextmanager
def left_to_script() -> Iterator[None]:
    """Leave them, empty at first, to the defaults and to the script's settings, in this process and in its child
    processes.
    """
    required(_config_module._ConfigEntry, "env_value_force")
    unset = required(_config_module, "_UNSET_SENTINEL")
    for config, name, variable in SETTINGS:
        config._config[name].env_value_force = unset
        os.environ.pop(variable, None)
    with fresh_cache():
        yield
