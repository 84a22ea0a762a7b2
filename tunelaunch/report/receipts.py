"""Receipts: what each rank did, one JSON file a rank under ``<run dir>/receipts``.

Guarantees: a receipt appears whole or not at all; reading never raises for a damaged one, which comes back as a failed
receipt that says why. Schema ``tunelaunch/receipt/1``; ``rank`` is the global rank. A process that does not know its
rank yet writes ``process-<pid>.json``, which its first receipt with a rank replaces.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = "tunelaunch/receipt/1"
_NAME = re.compile(r"^(rank|process)-(\d{1,9})\.json$")


def receipt_path(run_dir: Path | str, rank: int) -> Path:
    """Where the receipt of global rank ``rank`` lies."""
    return Path(run_dir) / "receipts" / f"rank-{rank}.json"


def write_receipt(run_dir: Path | str, receipt: Mapping[str, Any]) -> Path:
    """Write (or replace) the receipt of ``receipt["rank"]``, or of this process while that is ``None``; its path.

    Raises :class:`OSError` when it cannot be written, :class:`ValueError` or :class:`TypeError` when it is no receipt.
    """
    rank = receipt.get("rank")
    unranked = Path(run_dir) / "receipts" / f"process-{os.getpid()}.json"
    if rank is not None and (not isinstance(rank, int) or isinstance(rank, bool) or rank < 0):
        raise ValueError(f"a receipt needs the global rank that it is of, or None, not {rank!r}")
    path = unranked if rank is None else receipt_path(run_dir, rank)
    text = json.dumps({"schema": SCHEMA, **receipt}, indent=1, ensure_ascii=True) + "\n"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if path != unranked:
        unranked.unlink(missing_ok=True)
    return path


def read_receipts(run_dir: Path | str) -> list[dict[str, Any]]:
    """All receipts of a start, by rank, then those without one; an unreadable one is ``failed`` and says why."""
    folder = Path(run_dir) / "receipts"
    found: list[tuple[bool, int, dict[str, Any]]] = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _NAME.match(path.name)
        if match:
            rank = int(match[2]) if match[1] == "rank" else None
            found.append((rank is None, int(match[2]), _read(path, rank)))
    return [receipt for _, _, receipt in sorted(found, key=lambda item: item[:2])]


def _read(path: Path, rank: int | None) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as why:
        return _unreadable(path, rank, str(why))
    if not isinstance(data, dict):
        return _unreadable(path, rank, f"a JSON {type(data).__name__}, not an object")
    return {**data, "rank": rank}


def _unreadable(path: Path, rank: int | None, why: str) -> dict[str, Any]:
    problem = f"receipt {path.name} cannot be read: {why}"
    return {"schema": SCHEMA, "rank": rank, "state": "failed", "problems": [problem]}
