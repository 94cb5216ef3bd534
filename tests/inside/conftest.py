"""Tests of the package that runs in the user's Python, with torch in this process.

torch warns when numpy is missing, once, at its first import; that is no concern of a test that turns warnings into errors.
"""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch  # noqa: F401
