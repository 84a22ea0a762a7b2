"""What the store answers: a load, a write."""

from __future__ import annotations

from dataclasses import dataclass

from .problems import Problem
from .table import Table


@dataclass(frozen=True)
class Loaded:
    """A table, or ``None`` for a miss, and what was odd on the way."""

    table: Table | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Published:
    """What a write did.

    ``generation`` is the current one afterwards (0: there is no table), ``None`` if the write could not be done.
    ``added``, ``replaced``, ``removed`` and ``kept`` count rows of the table: new, changed, gone, left as they were.
    ``path`` is the table file.
    """

    generation: int | None
    added: int
    replaced: int
    kept: int
    path: str | None
    problems: tuple[Problem, ...]
    removed: int = 0
