"""The web side: REST under ``/api/v1``, pages for people, and nothing that runs a user's code.

It reads and writes the store and sends messages to the broker. It imports no torch, no engine and no worker.
"""

from web.factory import create_app

__all__ = ["create_app"]
