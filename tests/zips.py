"""Zip archives of projects, as users send them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """An archive of these files, by path; a name with a slash at its end is a folder."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()
