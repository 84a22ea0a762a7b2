"""What ``import`` is pointed at: a bundle, a cache directory, a neighbour's file, here or behind a URL.

Guarantees: :func:`open_source` reads and checks everything, changes nothing, and raises :class:`ShareError` with a reason
and nothing else.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tunelaunch.errors import ShareError
from tunelaunch.share import archive, neighbours, stock
from tunelaunch.share.bundle import Bundle, read_bundle, read_file
from tunelaunch.share.document import SharedTable
from tunelaunch.share.neighbours import Known
from tunelaunch.share.signing import Trust
from tunelaunch.share.url import fetch, is_url, local_path, shown

MAX_REASONS = 10


@dataclass(frozen=True)
class Source:
    """Tables that can be imported, where they are from (in words), and what is to be said about them."""

    tables: tuple[SharedTable, ...]
    origin: str
    kind: str
    """``bundle``, ``cache`` or ``flashinfer``."""
    digest: str = ""
    signed: bool = False
    notes: tuple[str, ...] = ()
    refused: int = 0


def open_source(spec: str, trust: Trust, known: Known) -> Source:
    """Read ``spec`` (a path, a URL, or ``-`` for standard input); ``known`` are the environments of this host."""
    if spec == "-":
        return _bundle(read_bundle(sys.stdin.buffer.read(archive.MAX_FILE_BYTES + 1), trust), "standard input")
    if is_url(spec) and (path := local_path(spec)) is None:
        return _bundle(read_bundle(fetch(spec, archive.MAX_FILE_BYTES), trust), shown(spec))
    path = local_path(spec) or Path(spec).expanduser()
    if path.is_dir():
        return _directory(path, trust, known)
    raw = read_file(path)
    if not archive.is_archive(raw) and neighbours.is_flashinfer(raw):
        trust.refuse_unsigned(f"{path} (a plain JSON file)")
        return _neighbour(neighbours.read_flashinfer_file(path, known), path)
    return _bundle(read_bundle(raw, trust), str(path))


def _bundle(bundle: Bundle, origin: str) -> Source:
    notes = (f"{origin}: {bundle.note}",) if bundle.note else ()
    return Source(bundle.tables, origin, "bundle", bundle.digest, bundle.signed, notes)


def _directory(path: Path, trust: Trust, known: Known) -> Source:
    trust.refuse_unsigned(f"{path} (a directory)")
    chosen = stock.select([path], None, None)
    if not chosen:
        return _neighbour(neighbours.read_flashinfer_directory(path, known), path)
    tables, notes = [], []
    for _, tid in chosen:
        try:
            tables.append(stock.take(path, tid))
        except ShareError as why:
            notes.append(str(why))
    if not tables:
        raise ShareError(f"nothing in {path} can be used: {notes[0]}")
    return Source(tuple(tables), str(path), "cache", notes=tuple(notes))


def _neighbour(found: neighbours.Found, path: Path) -> Source:
    notes = [f"not taken: {' '.join(why.split())}" for why in found.refused[:MAX_REASONS]]
    if len(found.refused) > MAX_REASONS:
        notes.append(f"not taken: {len(found.refused) - MAX_REASONS} more")
    notes.append("these rows were measured by others: they are verified before they serve")
    return Source(found.tables(), str(path), "flashinfer", notes=tuple(notes), refused=len(found.refused))
