"""The table on disk: rows, generations, locking, merge, quarantine, reports. Knows neither torch nor SGLang."""

from __future__ import annotations

from .files import atomic_write, read_json_any, set_aside
from .identity import TableId
from .layout import Layout, TablePaths
from .lock import locked
from .outcome import Loaded, Published
from .problems import Problem
from .rows import Row
from .scan import TableInfo
from .store import Store
from .table import Table

__all__ = [
    "Layout",
    "Loaded",
    "Problem",
    "Published",
    "Row",
    "Store",
    "Table",
    "TableId",
    "TableInfo",
    "TablePaths",
    "atomic_write",
    "locked",
    "read_json_any",
    "set_aside",
]
