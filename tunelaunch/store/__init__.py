"""The table on disk: rows, generations, locking, merge, quarantine, reports. Knows neither torch nor SGLang."""

from __future__ import annotations

from .diff import TableDiff
from .files import atomic_write, read_json_any, set_aside
from .holdings import Holding
from .identity import TableId
from .layout import Layout, TablePaths
from .lock import locked
from .outcome import Loaded, Published
from .problems import Problem
from .prune import PrunePlan, PruneRule, plan_prune
from .removal import Removed
from .rows import Row
from .scan import TableInfo
from .store import Store
from .table import Table
from .users import User

__all__ = [
    "Holding",
    "Layout",
    "Loaded",
    "Problem",
    "PrunePlan",
    "PruneRule",
    "Published",
    "Removed",
    "Row",
    "Store",
    "Table",
    "TableDiff",
    "TableId",
    "TableInfo",
    "TablePaths",
    "User",
    "atomic_write",
    "locked",
    "plan_prune",
    "read_json_any",
    "set_aside",
]
