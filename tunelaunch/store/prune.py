"""Which tables to remove: a plan, made from what is there. Pure: no disk, no clock.

Guarantees: a table that is pinned, in use or unreadable is never in the plan; every table that goes has a reason, and
every table that the rule would take but that is protected is named with what protects it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .holdings import Holding

DAY_S = 24 * 3600.0


@dataclass(frozen=True)
class PruneRule:
    """What to remove. Tables not used for ``older_than_s`` seconds; those whose environment is not the newest of their
    device (``stale``); then the longest unused until all tables together have ``max_bytes`` or less."""

    older_than_s: float | None = None
    max_bytes: int | None = None
    stale: bool = False


@dataclass(frozen=True)
class Decision:
    """One table and why it goes, or why it stays although the rule names it."""

    holding: Holding
    why: str


@dataclass(frozen=True)
class PrunePlan:
    """``remove`` goes, ``protected`` stays against the rule; ``bytes`` of all tables before and after.

    ``over`` is by how many bytes the tables that stay exceed the size asked for.
    """

    remove: tuple[Decision, ...]
    protected: tuple[Decision, ...]
    bytes_before: int
    bytes_after: int
    over: int = 0


def plan_prune(tables: Sequence[Holding], rule: PruneRule, now: float) -> PrunePlan:
    """Decide for all ``tables``; ``now`` is in seconds since the epoch."""
    reasons = {index: why for index, table in enumerate(tables) if (why := _named(table, tables, rule, now))}
    guards = {index: why for index, table in enumerate(tables) if (why := protection(table))}
    before = sum(table.bytes for table in tables)
    left = before - sum(tables[i].bytes for i in reasons if i not in guards)
    if rule.max_bytes is not None:
        for index in sorted(range(len(tables)), key=lambda i: (tables[i].used, tables[i].name)):
            if left <= rule.max_bytes:
                break
            if index not in reasons:
                reasons[index] = f"longest unused of {left} bytes, {rule.max_bytes} are wanted"
                left -= 0 if index in guards else tables[index].bytes
    return PrunePlan(
        tuple(Decision(tables[i], reasons[i]) for i in sorted(reasons) if i not in guards),
        tuple(Decision(tables[i], guards[i]) for i in sorted(reasons) if i in guards),
        before,
        left,
        max(0, left - rule.max_bytes) if rule.max_bytes is not None else 0,
    )


def protection(table: Holding) -> str | None:
    """Why a table is never pruned, or ``None``."""
    if table.info.pinned:
        return "pinned"
    if table.users:
        return f"in use by {table.users[0]}"
    if table.info.problem is not None:
        return f"cannot be read, so it may be pinned: {table.info.problem.why}"
    return None


def _named(table: Holding, tables: Sequence[Holding], rule: PruneRule, now: float) -> str | None:
    if rule.older_than_s is not None and now - table.used > rule.older_than_s:
        return f"not used for {(now - table.used) / DAY_S:.1f} days"
    if rule.stale:
        rivals = [
            t for t in tables if (t.root, t.info.device) == (table.root, table.info.device) and not t.info.problem
        ]
        newest = max(rivals, key=lambda t: (t.used, t.info.environment), default=table)
        if newest is not table:
            return f"environment {newest.info.environment} of this device was used later"
    return None
