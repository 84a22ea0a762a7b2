"""What this host has: its tables as they travel, and the environments that are known here. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tunelaunch.device.environment import Environment, differences, explain
from tunelaunch.errors import ShareError
from tunelaunch.share.document import SharedTable, identity
from tunelaunch.store import Store, TableId, read_json_any

IMPORTED = "import "
"""How the launch of a generation begins that came from elsewhere."""


def take(root: Path, tid: TableId) -> SharedTable:
    """Table ``tid`` under ``root``, to be shared. Raises :class:`ShareError` when it cannot be."""
    store = Store.open(root, readonly=True)
    loaded = store.load(tid)
    if loaded.table is None:
        raise ShareError("; ".join(map(str, loaded.problems)) or f"there is no table {tid} under {root}")
    fields = store.read_environment(tid)
    if fields is None:
        raise ShareError(f"{tid} has no environment.json, so nobody could tell what its rows mean; not shared")
    if (true := identity(fields, str(tid))) != tid:
        raise ShareError(f"{tid} lies in the wrong place: its environment.json is that of {true}; not shared")
    written = {name: loaded.table.written[name] for name in ("at", "launch") if loaded.table.written.get(name)}
    provenance = {"generation": loaded.table.generation, **written}
    return SharedTable(tid, dict(fields), loaded.table.rows, tuple(store.read_quarantine(tid)), provenance)


def select(roots: Iterable[Path], device: str | None, environment: str | None) -> list[tuple[Path, TableId]]:
    """Root and id of the usable tables that match, newest first; ``device`` and ``environment`` may be cut short."""
    found = []
    for root in roots:
        for info in Store.open(root, readonly=True).tables():
            fits = info.device.startswith(device or "") and info.environment.startswith(environment or "")
            if fits and info.problem is None:
                found.append((info.mtime, root, info.tid))
    return [(root, tid) for _, root, tid in sorted(found, key=lambda item: item[0], reverse=True)]


def known_environments(
    roots: Sequence[Path], device: str | None = None, *, own: bool = False
) -> list[tuple[TableId, Environment]]:
    """Environments of this host: that of its last start, then those of its tables, newest first.

    ``own``: without tables that only ever were imported; they say nothing about this host.
    """
    known: dict[TableId, Environment] = {}
    for root in roots:
        report = Store.open(root, readonly=True).read_report() or {}
        part = report.get("environment")
        fields = part.get("fields") if isinstance(part, Mapping) else None
        if isinstance(fields, Mapping) and fields:
            try:
                tid = identity(fields, "the last report")
            except ShareError:
                continue
            if device in (None, tid.device):
                known.setdefault(tid, Environment.from_json({"fields": fields}))
    for root, tid in select(roots, device, None):
        fields = Store.open(root, readonly=True).read_environment(tid)
        if fields is not None and not (own and _only_imported(root, tid)):
            known.setdefault(tid, Environment.from_json({"fields": fields}))
    return list(known.items())


def _only_imported(root: Path, tid: TableId) -> bool:
    """Whether no kept generation of a table was written by a start on this host."""
    paths = Store.open(root, readonly=True).paths(tid)
    for path in (paths.table, *sorted(paths.history.glob("*.json"))):
        value, _ = read_json_any(path, root)
        written = value.get("written") if isinstance(value, Mapping) else None
        if isinstance(written, Mapping) and not str(written.get("launch", "")).startswith(IMPORTED):
            return False
    return True


def here(known: Sequence[tuple[TableId, Environment]], device: str, expect: str | None) -> Environment | None:
    """The environment of this host for ``device``: the one whose id begins with ``expect``, else the first known."""
    fits = [env for tid, env in known if tid.device == device and tid.environment.startswith(expect or "")]
    return fits[0] if fits else None


def apart(table: SharedTable, current: Environment | None) -> str | None:
    """In which decisive fields ``table`` differs from this host's environment; ``None`` where it does not."""
    if current is None or current.id == table.tid.environment:
        return None
    return fields_apart(table.environment, current)


def fields_apart(saved: Environment, current: Environment) -> str:
    """The decisive fields that differ, saved and current, in one line."""
    diffs = [d for d in differences(saved, current) if d.decisive]
    return "; ".join(line.strip() for line in explain(diffs).splitlines()[1:])
