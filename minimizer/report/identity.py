"""The name of a failure, equal for two reports of the same one, used by baselines, SARIF and groups.

It is made from the failure's signature (kind, normalised exception or type of difference, raising frame) and the
operators of the first root culprit. The stage and the place in the script are not part of it: the same fault in another
model has the same name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def fingerprint(report: Mapping[str, Any]) -> str | None:
    """``<kind>-<16 hex digits>`` for a report in its contract form; None without a failure."""
    failure = report.get("failure")
    if not failure:
        return None
    parts = [failure["kind"], failure.get("signature") or "", root_operators(report)]
    return f"{failure['kind']}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def root_operators(report: Mapping[str, Any]) -> list[str]:
    """The operators of the reduced culprit, sorted; its description if it is no operator."""
    root = next((culprit for culprit in report.get("culprits") or () if culprit.get("root", True)), None)
    if root is None:
        return []
    return sorted(set(root.get("ops") or ())) or [what for what in [root.get("what")] if what]
