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
    from tunelaunch.store.holdings import Holding
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
    """Tables of the root, then of the overlay. Raises :class:`StoreError` for a root that is there and cannot be read."""
    _must_be_readable(root)
    return [info for place in _roots(root) for info in store_to_read(place).tables()]


def all_holdings(root: Path) -> list[Holding]:
    """The same tables, with what they take and who uses them; raises like :func:`all_tables`."""
    _must_be_readable(root)
    return [held for place in _roots(root) for held in store_to_read(place).holdings()]


def _must_be_readable(root: Path) -> None:
    """A root that cannot be read must not look like an empty one."""
    for place in (root, root / "v1"):
        try:
            next(place.iterdir(), None)
        except FileNotFoundError:
            return
        except OSError as why:
            raise StoreError(
                f"{place} cannot be read ({why.strerror}), so its tables are not known; "
                "give another root with --tunelaunch-cache, or its owner's rights"
            ) from why


def _roots(root: Path) -> list[Path]:
    return [root, overlay()] if overlay().is_dir() and overlay() != root else [root]


def root_of_table(info: TableInfo) -> Path:
    """The root under which a listed table lies: ``<root>/v1/<device>/<environment>/table.json``."""
    return Path(info.path).parents[3]


def pick(tables: list[TableInfo], name: str | None) -> TableInfo:
    """The one table that ``name`` means: ``DEVICE/ENVIRONMENT``, a device, or the beginning of either.

    Without a name the only table. Where root and overlay both hold it, that of the root (``--tunelaunch-cache`` picks
    the other). Raises :class:`StoreError` that lists the candidates otherwise.
    """
    if not tables:
        raise StoreError("there is no table yet; a start of SGLang through tunelaunch that tunes makes one")
    matches = [t for t in tables if name is None or _is_named(t, name)]
    names = list(dict.fromkeys(f"{t.device}/{t.environment}" for t in matches))
    if len(names) == 1:
        return matches[0]
    listed = ", ".join(names or dict.fromkeys(f"{t.device}/{t.environment}" for t in tables))
    if name is None:
        raise StoreError(f"there are {len(names)} tables; name one of: {listed}")
    raise StoreError(f"{name!r} names {len(names)} tables; candidates: {listed}")


def _is_named(table: TableInfo, name: str) -> bool:
    full = f"{table.device}/{table.environment}"
    return full.startswith(name) or table.environment.startswith(name)
