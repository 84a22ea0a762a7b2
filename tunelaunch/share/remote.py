"""A remote: objects that are only ever added, one a publish, merged when they are read.

    <url>/v1/<device>/<environment>/objects/<sha256>.json                unsigned
    <url>/v1/<device>/<environment>/objects/<sha256>.<hmac-sha256>.json  signed

Guarantees: an object is named by its own bytes and never changed, so any number of writers on a store without locks lose
nothing and need no index; a torn or altered object does not match its name and is not used; two hosts that read the same
objects get the same rows (by evidence, then by name). One bad object never hides the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tunelaunch.errors import ShareError
from tunelaunch.share.document import SCHEMA, SharedTable, parse
from tunelaunch.share.evidence import apply, decide, weight
from tunelaunch.share.places import Place
from tunelaunch.share.signing import Trust
from tunelaunch.share.strictjson import MAX_BYTES
from tunelaunch.store import TableId
from tunelaunch.store.identity import is_device, is_environment
from tunelaunch.store.jsontext import encode

VERSION = "v1"
MAX_OBJECTS = 5_000
MAX_TOTAL_BYTES = 512 * 1024 * 1024
_NAME = re.compile(r"([0-9a-f]{64})(?:\.([0-9a-f]{64}))?\.json")


@dataclass(frozen=True)
class RemoteTable:
    """All objects of one table, merged. ``table`` is ``None`` where there is none that can be used."""

    tid: TableId
    table: SharedTable | None = None
    objects: int = 0
    problems: tuple[str, ...] = field(default=())


def tables_at(place: Place, device: str | None = None, environment: str | None = None) -> list[TableId]:
    """The tables of a remote whose device and environment begin so. Raises :class:`ShareError` if it is not reached."""
    found = []
    for name in place.list(VERSION):
        if is_device(name) and name.startswith(device or ""):
            for inner in place.list(f"{VERSION}/{name}"):
                if is_environment(inner) and inner.startswith(environment or ""):
                    found.append(TableId(name, inner))
    return found


def read_remote(place: Place, tid: TableId, trust: Trust) -> RemoteTable:
    """Read and merge all objects of ``tid``. Raises :class:`ShareError` only if the place is not reached."""
    folder = _folder(tid)
    names = sorted(name for name in place.list(folder) if _NAME.fullmatch(name))
    problems = []
    if len(names) > MAX_OBJECTS:
        problems.append(f"{place.name}/{folder} holds {len(names)} objects; only {MAX_OBJECTS} are read")
        names = names[:MAX_OBJECTS]
    merged: SharedTable | None = None
    total = 0
    for name in names:
        try:
            raw = place.read(f"{folder}/{name}", MAX_BYTES)
            total += len(raw)
            if total > MAX_TOTAL_BYTES:
                raise ShareError(
                    f"{place.name}: its objects have more than {MAX_TOTAL_BYTES} bytes; the rest is not read"
                )
            merged = _add(merged, check_object(name, raw, tid, trust))
        except ShareError as why:
            problems.append(f"object {name[:12]}: {why}; not used")
            if total > MAX_TOTAL_BYTES:
                break
    return RemoteTable(tid, merged, len(names), tuple(problems))


def check_object(name: str, raw: bytes, tid: TableId, trust: Trust) -> SharedTable:
    """The table in an object. Raises :class:`ShareError` unless its name, signature and identity hold."""
    match = _NAME.fullmatch(name)
    if match is None or hashlib.sha256(raw).hexdigest() != match[1]:
        raise ShareError("its bytes are not those of its name (torn, or changed)")
    trust.check(SCHEMA, raw, match[2], "it")
    table = parse(raw, "it")
    if table.tid != tid:
        raise ShareError(f"it is of {table.tid}")
    return table


def write_remote(place: Place, table: SharedTable, trust: Trust) -> str:
    """Add ``table`` as one object and return its name; writing the same again changes nothing."""
    raw = table.to_bytes()
    parse(raw, str(table.tid))  # what nobody would take is not pushed
    signature = trust.sign(SCHEMA, raw)
    name = ".".join([hashlib.sha256(raw).hexdigest(), *([signature] if signature else []), "json"])
    place.write(f"{_folder(table.tid)}/{name}", raw)
    return name


def news(local: SharedTable, there: SharedTable | None) -> SharedTable | None:
    """What of ``local`` a remote does not have yet, or has with less evidence; ``None`` for nothing.

    Rows that were never verified stay here: they came from elsewhere, and their source can be imported as well.
    """
    rows = [row for row in local.rows if weight(row) > 0]
    known = {encode(entry) for entry in (there.quarantine if there else ())}
    quarantine = tuple(entry for entry in local.quarantine if encode(entry) not in known)
    decision = decide(there.rows if there else (), rows)
    fresh = (*decision.add, *decision.replace)
    return replace(local, rows=tuple(fresh), quarantine=quarantine) if fresh or quarantine else None


def _add(merged: SharedTable | None, table: SharedTable) -> SharedTable:
    if merged is None:
        return replace(table, provenance={})
    rows = apply(merged.rows, decide(merged.rows, table.rows))
    return replace(merged, rows=rows, quarantine=_union(merged.quarantine, table.quarantine))


def _union(*parts: Sequence[object]) -> tuple:  # type: ignore[type-arg]
    return tuple({encode(entry): entry for part in parts for entry in part}.values())


def _folder(tid: TableId) -> str:
    return f"{VERSION}/{tid.device}/{tid.environment}/objects"
