"""Entry of the sandboxed child: ``python minimizer/inside/__main__.py IN_FD OUT_FD``.

Loads this folder as the package ``minimizer_inside``, so that minimizer need not be installed in the user's Python and
none of our module names can shadow the user's.
"""

import importlib
import importlib.util
import os
import sys


def load() -> None:
    """Make this folder importable as ``minimizer_inside`` and take it off ``sys.path``."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    spec = importlib.util.spec_from_file_location(
        "minimizer_inside", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["minimizer_inside"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    load()
    importlib.import_module("minimizer_inside.zygote").main(int(sys.argv[1]), int(sys.argv[2]))
