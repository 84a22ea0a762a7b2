"""Which rows a process gets, and handing them to FlashInfer.

Rows whose key says enough are in the file that FlashInfer reads when a tuning pass begins. Rows with a scope are handed
over when a runner of that scope shows itself, and taken back when another scope comes, because both have the same keys.
Equal rows give equal bytes on every rank, so SGLang's own comparison of the ranks' files finds them equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tunelaunch.hosts import flashinfer as fi
from tunelaunch.store import Row


def usable(rows: Iterable[Row]) -> tuple[list[Row], list[str]]:
    """Rows that may be fed, and a line for each set of ranks that is not whole (such rows would mix hits and misses)."""
    rows = list(rows)
    present: dict[str, set[int]] = {}
    size: dict[str, int] = {}
    for row in rows:
        if row.set:
            present.setdefault(str(row.set["id"]), set()).add(int(row.set["index"]))
            size[str(row.set["id"])] = int(row.set["size"])
    broken = {n for n, found in present.items() if len(found) != size[n] or not all(0 <= i < size[n] for i in found)}
    lines = [
        f"rows of set {name} are there for {len(present[name])} of {size[name]} ranks: not used"
        for name in sorted(broken)
    ]
    return [row for row in rows if not row.set or str(row.set["id"]) not in broken], lines


@dataclass
class Feeder:
    """Hands rows to FlashInfer in this process. ``directory`` is private to this rank."""

    directory: Path
    environment: Mapping[str, str]
    strong: dict[str, Row] = field(default_factory=dict)
    scoped: dict[tuple[str, str], dict[str, Row]] = field(default_factory=dict)
    active: dict[str, str] = field(default_factory=dict)
    files: int = 0

    def take(self, rows: Iterable[Row]) -> None:
        """Add rows (later ones win) to what is handed over from now on."""
        for row in rows:
            if row.scope is None:
                self.strong[row.key] = row
            else:
                self.scoped.setdefault((row.op, row.scope), {})[row.key] = row

    def find(self, op: str, scope: str | None, key: str) -> Row | None:
        """The row that this process was given for ``key``."""
        return self.strong.get(key) if scope is None else self.scoped.get((op, scope), {}).get(key)

    def entry_file(self) -> Path:
        """Write and return the file with which a tuning pass begins: rows without scope."""
        self.active.clear()
        return self._write("entry", self.strong.values())

    def activate(self, op: str, scope: str | None) -> None:
        """Make the rows of ``scope`` the ones that FlashInfer finds for ``op``; cheap when they already are."""
        if scope is None or self.active.get(op) == scope:
            return
        others = [keys for (name, other), keys in self.scoped.items() if name == op and other != scope]
        fi.evict(key for keys in others for key in keys)
        self.active[op] = scope
        if rows := self.scoped.get((op, scope)):
            self.files += 1
            fi.load(self._write(f"scope-{self.files}", rows.values()))

    def install(self, rows: Iterable[Row]) -> Path:
        """Make ``rows`` all that FlashInfer knows. Two scopes that want different tactics under one key get default."""
        by_key: dict[str, Row] = {}
        for row in rows:
            other = by_key.get(row.key)
            clash = other is not None and list(other.value)[:2] != list(row.value)[:2]
            by_key[row.key] = Row(key=row.key, value=[row.runner, -1, *row.value[2:]], op=row.op) if clash else row
        path = self._write("settled", by_key.values())
        fi.replace_all(path)
        return path

    def _write(self, name: str, rows: Iterable[Row]) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{name}.json"
        path.write_text(fi.file_text({row.key: list(row.value) for row in rows}, self.environment), encoding="utf-8")
        return path
