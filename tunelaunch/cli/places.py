"""The store that the commands work on: the same root and overlay as a start would use."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tunelaunch import launch
from tunelaunch.errors import StoreError
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.store.scan import TableInfo
    from tunelaunch.store.store import Store


def root_of(args: argparse.Namespace, own: Own) -> Path:
    """Root of the tables: the command's option, the one before the command, the variable, the default."""
    return launch.cache_root(args.tunelaunch_cache or own.cache, os.environ)


def overlay() -> Path:
    """Where tables are written when the root cannot be."""
    return launch.overlay_dir(os.environ)


def store_to_read(root: Path) -> Store:
    """The store without any effect on the disk; tables that only the overlay holds are in :func:`all_tables`."""
    from tunelaunch.store.store import Store

    return Store.open(root, readonly=True)


def all_tables(root: Path) -> list[TableInfo]:
    """Tables of the root, then of the overlay."""
    found = store_to_read(root).tables()
    if overlay().is_dir() and overlay() != root:
        found += store_to_read(overlay()).tables()
    return found


def root_of_table(info: TableInfo) -> Path:
    """The root under which a listed table lies: ``<root>/v1/<device>/<environment>/table.json``."""
    return Path(info.path).parents[3]


def pick(tables: list[TableInfo], name: str | None) -> TableInfo:
    """The one table that ``name`` means: ``DEVICE/ENVIRONMENT``, a device, or the beginning of either.

    Without a name the only table. Raises :class:`StoreError` that lists the candidates otherwise.
    """
    if not tables:
        raise StoreError("there is no table yet; a start of SGLang through tunelaunch that tunes makes one")
    matches = [t for t in tables if name is None or _is_named(t, name)]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(f"{t.device}/{t.environment}" for t in (matches or tables))
    if name is None:
        raise StoreError(f"there are {len(tables)} tables; name one of: {listed}")
    raise StoreError(f"{name!r} names {len(matches)} tables; candidates: {listed}")


def _is_named(table: TableInfo, name: str) -> bool:
    full = f"{table.device}/{table.environment}"
    return full.startswith(name) or table.environment.startswith(name)
