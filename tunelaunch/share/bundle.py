"""A bundle: one file that carries tables to another host.

Members: ``manifest.json``, ``manifest.hmac`` (signed bundles only) and one ``tables/*.json`` for each table. The manifest
lists every table with its environment, row counts and provenance, and size and SHA-256 of every member; the signature
covers the manifest, hence all. Guarantees: the same tables give the same bytes; :func:`read_bundle` checks everything
before it returns anything, and raises :class:`ShareError` with a reason and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunelaunch import __version__
from tunelaunch.errors import ShareError
from tunelaunch.share import archive, document
from tunelaunch.share.document import SharedTable
from tunelaunch.share.evidence import weight
from tunelaunch.share.signing import Trust
from tunelaunch.share.strictjson import decode
from tunelaunch.store.jsontext import encode

SCHEMA = "tunelaunch/bundle/1"
MANIFEST, SIGNATURE = "manifest.json", "manifest.hmac"


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read and checked. ``signed``: with a key that this host holds."""

    tables: tuple[SharedTable, ...]
    digest: str
    """SHA-256 of the manifest, hence of all that the bundle says."""
    signed: bool
    note: str | None = None


def make_bundle(tables: Sequence[SharedTable], trust: Trust | None = None) -> bytes:
    """The bytes of a bundle of ``tables``. Raises :class:`ShareError` for what no import would take."""
    documents = {_member(table): (table, table.to_bytes()) for table in tables}
    if len(documents) != len(tables):
        raise ShareError("a bundle can hold a table once only")
    documents = dict(sorted(documents.items()))
    for name, (_, data) in documents.items():
        document.parse(data, name)  # what would be refused elsewhere is refused here, where it can be repaired
    manifest = encode(
        {
            "schema": SCHEMA,
            "made_by": f"tunelaunch {__version__}",
            "rows": sum(len(table.rows) for table, _ in documents.values()),
            "tables": [{"member": name, **describe(table)} for name, (table, _) in documents.items()],
            "members": {name: _fingerprint(data) for name, (_, data) in documents.items()},
        }
    )
    signature = (trust or Trust()).sign(SCHEMA, manifest)
    members = {MANIFEST: manifest}
    members |= {SIGNATURE: f"{signature}\n".encode("ascii")} if signature else {}
    return archive.pack(members | {name: data for name, (_, data) in documents.items()})


def read_bundle(raw: bytes, trust: Trust | None = None) -> Bundle:
    """The tables in ``raw``."""
    try:
        return _read(raw, trust or Trust())
    except (RecursionError, MemoryError) as error:
        raise ShareError(f"the bundle cannot be read ({type(error).__name__})") from None


def describe(table: SharedTable) -> dict[str, Any]:
    """What a manifest says of a table."""
    evidence = [row.evidence for row in table.rows]
    return {
        "device": table.tid.device,
        "environment": table.tid.environment,
        "fields": table.fields,
        "rows": len(table.rows),
        "measured": sum(1 for row in table.rows if weight(row) >= 2),
        "quarantined": len(table.quarantine),
        "provenance": {
            **table.provenance,
            "hosts": sorted({str(e["host"]) for e in evidence if isinstance(e.get("host"), str)}),
            "launches": sorted({str(e["launch"]) for e in evidence if isinstance(e.get("launch"), str)}),
        },
    }


def read_file(path: Path, limit: int = archive.MAX_FILE_BYTES) -> bytes:
    """The bytes of the regular file ``path``, ``limit`` at most. Raises :class:`ShareError`."""
    try:
        if not path.is_file():
            raise ShareError(f"{path} is no file" if path.exists() else f"{path} does not exist")
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise ShareError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(raw) > limit:
        raise ShareError(f"{path} has more than {limit} bytes")
    return raw


def _read(raw: bytes, trust: Trust) -> Bundle:
    members = archive.unpack(raw)
    if next(iter(members), None) != MANIFEST:
        raise ShareError(f"the bundle does not begin with {MANIFEST}")
    manifest = members.pop(MANIFEST)
    sealed = members.pop(SIGNATURE, None)
    signature = None if sealed is None else sealed.decode("ascii", "replace").strip()
    # First of all: until the signature holds, nothing in here is worth a look.
    signed = trust.check(SCHEMA, manifest, signature, "the bundle")
    value = decode(manifest, MANIFEST)
    if not isinstance(value, Mapping):
        raise ShareError(f"{MANIFEST} holds no JSON object")
    document.check_schema(value.get("schema"), SCHEMA, MANIFEST)
    listed, entries = value.get("members"), value.get("tables")
    if not isinstance(listed, Mapping) or not isinstance(entries, list):
        raise ShareError(f"{MANIFEST} lists no members, or no tables")
    if set(listed) != set(members) or len(entries) != len(members):
        odd = sorted(set(listed) ^ set(members)) or ["a table"]
        raise ShareError(f"{MANIFEST} and the members differ: {odd[0][:100]} is in one of them only")
    for name, data in members.items():
        if listed[name] != _fingerprint(data):
            raise ShareError(f"{name} is not what {MANIFEST} says: size or SHA-256 differ")
    tables = tuple(document.parse(data, name) for name, data in members.items())
    for table, name, entry in zip(tables, members, entries, strict=True):
        if entry != {"member": name, **describe(table)} or name != _member(table):
            raise ShareError(f"{MANIFEST} describes {name} otherwise than it is")
    if value.get("rows") != sum(len(table.rows) for table in tables):
        raise ShareError(f"{MANIFEST} counts {str(value.get('rows'))[:20]} rows, the members hold another number")
    note = "its signature was not checked: no key was given" if signature and not signed else None
    return Bundle(tables, hashlib.sha256(manifest).hexdigest(), signed, note)


def _member(table: SharedTable) -> str:
    device = hashlib.sha256(table.tid.device.encode("ascii")).hexdigest()[:16]
    return f"tables/{table.tid.environment}-{device}.json"


def _fingerprint(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
