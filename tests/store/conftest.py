from __future__ import annotations

import pytest

from minimizer.options import Options
from minimizer.store import Claim, Store


@pytest.fixture
def claim(store: Store) -> Claim:
    """The only job, in the hands of the worker ``w``."""
    store.submissions.submit(b"import torch\n", "a.py", Options())
    claimed = store.leases.claim("w", lease_seconds=60)
    assert claimed is not None
    return claimed
