"""A table as a plain FlashInfer file, which FlashInfer itself, and so vLLM and SGLang without tunelaunch, load.

Guarantees: only rows whose key alone says what they are for go in; equal rows give equal bytes. Evidence stays behind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tunelaunch.device.environment import FLASHINFER
from tunelaunch.errors import ShareError
from tunelaunch.share.document import SharedTable
from tunelaunch.share.evidence import hidden_of, is_hidden


def flashinfer_file(table: SharedTable) -> tuple[bytes, Mapping[str, int]]:
    """The file, and how many rows were left out by reason. Raises :class:`ShareError` when no row is left."""
    metadata = {name[len(FLASHINFER) :]: value for name, value in table.fields.items() if name.startswith(FLASHINFER)}
    if not metadata:
        raise ShareError(f"{table.tid} does not say which FlashInfer its rows belong to; nothing was written")
    hidden = hidden_of(table.quarantine)
    rows: dict[str, list[Any]] = {}
    left: Counter[str] = Counter()
    for row in table.rows:
        if row.scope is not None:
            left["their key means another kernel in another model (they have a scope)"] += 1
        elif row.set is not None:
            left["they belong to one rank of a set"] += 1
        elif is_hidden(row, hidden):
            left["their tactic is quarantined"] += 1
        elif row.evidence.get("unverified"):
            left["they were never verified"] += 1
        else:
            rows[row.key] = list(row.value)
    if not rows:
        reasons = "; ".join(f"{number} rows: {why}" for why, number in left.items()) or "the table is empty"
        raise ShareError(f"no row of {table.tid} can be used without tunelaunch ({reasons}); nothing was written")
    body: dict[str, Any] = {"_metadata": {name: _text(metadata[name]) for name in sorted(metadata)}}
    body |= {key: rows[key] for key in sorted(rows)}
    return (json.dumps(body, indent=1) + "\n").encode("ascii"), dict(left)


def _text(value: Any) -> str:
    return "unknown" if value is None else str(value)
