"""The name of a failure: what two reports share when they tell of the same one. Baselines, SARIF and groups go by it.

It is made of the failure's signature (kind, normalised exception or sort of difference, raising frame) and of the operators of the
first root culprit. The stage and the place in the script are no part of it: the same fault in another model has the same name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def fingerprint(report: Mapping[str, Any]) -> str | None:
    """``<kind>-<16 hex digits>`` for a report in its contract form; None where it tells of no failure."""
    failure = report.get("failure")
    if not failure:
        return None
    parts = [failure["kind"], failure.get("signature") or "", root_operators(report)]
    return f"{failure['kind']}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def root_operators(report: Mapping[str, Any]) -> list[str]:
    """The operators of the culprit that was reduced, sorted; what it is where it is no operator."""
    root = next((culprit for culprit in report.get("culprits") or () if culprit.get("root", True)), None)
    if root is None:
        return []
    return sorted(set(root.get("ops") or ())) or [what for what in [root.get("what")] if what]
