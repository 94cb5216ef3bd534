"""``python tests/gpu run``, ``wheels`` or ``page``; see `gpuset`."""

import sys

if sys.version_info < (3, 11):  # said before an import fails  # noqa: UP036
    sys.exit("Python 3.11 or later is needed: name one with PYTHON=/path/to/python")

from gpuset.__main__ import main

sys.exit(main())
