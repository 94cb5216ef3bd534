"""Compresses the static files of pages: styles, scripts and the API explorer, which is two megabytes without.

Only files that are equal for everybody and hold no secret: the size of a page with attacker-controlled text would leak
secrets.
"""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict

from flask import Flask, Response, request

ENDPOINTS = ("static", "documentation.swagger_file")
LEAST_BYTES = 1400
"""A file that fits into one packet arrives no sooner if it is smaller."""
KEPT = 64
"""Files; there are about thirty."""


def install(app: Flask) -> None:
    """Make ``app`` answer with compressed files whoever takes them."""
    packed: OrderedDict[tuple[str, str | None], bytes] = OrderedDict()
    lock = threading.Lock()

    @app.after_request
    def compress(response: Response) -> Response:
        if request.endpoint not in ENDPOINTS:
            return response
        response.vary.add("Accept-Encoding")
        kind = response.mimetype or ""
        is_text = kind.startswith("text/") or kind == "image/svg+xml"
        if response.status_code != 200 or not is_text or request.accept_encodings["gzip"] <= 0:
            return response
        etag, _ = response.get_etag()
        if etag is not None:  # of the file, not of its bytes on the way: the same for both ways to send it
            response.set_etag(etag, weak=True)
        if (response.content_length or 0) < LEAST_BYTES:
            return response
        key = (request.path, etag)
        with lock:
            content = packed.get(key)
        if content is None:
            response.direct_passthrough = False
            content = gzip.compress(response.get_data(), mtime=0)
            with lock:
                packed[key] = content
                if len(packed) > KEPT:
                    packed.popitem(last=False)
        response.direct_passthrough = False
        close = getattr(response.response, "close", None)
        response.set_data(content)
        if close is not None:  # the file, which nobody reads from here on
            close()
        response.content_encoding = "gzip"
        response.headers.pop("Accept-Ranges", None)
        return response
