"""``tunelaunch cache rm|prune``: remove whole tables, one by name or many by rule. A table in use or pinned stays."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunelaunch.cli import cells, places
from tunelaunch.cli.cache.names import TABLE_HELP, Commands, command, name_of
from tunelaunch.cli.output import print_columns, print_json, printable, say, tell
from tunelaunch.errors import StoreError, UsageError
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.store.holdings import Holding
    from tunelaunch.store.prune import Decision, PrunePlan

PRUNE = """\
  tunelaunch cache prune --older-than 30d --dry-run     what would go, and why
  tunelaunch cache prune --stale                        all but the newest environment of each device
  tunelaunch cache prune --max-size 500M                the longest unused first, until the rest fits"""


def add_to(commands: Commands) -> None:
    """Add these commands."""
    text = "Remove a whole table: rows, history, quarantine. One that is pinned or in use is refused without --force."
    rm = command(commands, "rm", _rm, text, "  tunelaunch cache rm nvidia-h200 --dry-run", dry_run=True)
    rm.add_argument("table", metavar="TABLE", help=TABLE_HELP.partition(";")[0])
    rm.add_argument("--force", action="store_true", help="even if it is pinned, in use or unreadable")
    text = "Remove tables by age, size or environment. One that is pinned, in use or unreadable always stays."
    prune = command(commands, "prune", _prune, text, PRUNE, dry_run=True)
    prune.add_argument("--older-than", type=cells.age_from, metavar="AGE", help="not used for so long: 30d, 12h, 2w")
    prune.add_argument("--max-size", type=cells.size_from, metavar="SIZE", help="all tables together: 500M, 2G")
    prune.add_argument(
        "--stale", action="store_true", help="tables whose environment is not the newest of their device"
    )


def _rm(args: argparse.Namespace, own: Own) -> int:
    from tunelaunch.store.store import Store

    held = places.all_holdings(places.root_of(args, own))
    info = places.pick([table.info for table in held], args.table)
    table = next(table for table in held if table.info.path == info.path)
    name = name_of(info)
    result = {"device": info.device, "environment": info.environment, "rows": info.rows, "bytes": table.bytes}
    what = f"{name}: {info.rows} rows, {table.quarantined} quarantined tactics, {cells.size_words(table.bytes)}"
    why = None if args.force else _protection(table)
    if why is not None:
        raise StoreError(f"{name} is not removed: {why}; to remove it all the same: tunelaunch cache rm {name} --force")
    if args.dry_run:
        tell(args, {**result, "done": False}, f"would remove {what}")
        return 0
    removed = Store.open(table.root).remove(info.tid, force=args.force)
    if not removed.done:
        raise StoreError(str(removed.problem))
    if removed.problem is not None:
        say(str(removed.problem))
    tell(args, {**result, "done": True}, f"removed {what}; the next start on this device tunes again")
    return 0


def _protection(table: Holding) -> str | None:
    from tunelaunch.store.prune import protection

    return protection(table)


def _prune(args: argparse.Namespace, own: Own) -> int:
    from tunelaunch.store.prune import PruneRule, plan_prune

    if args.older_than is None and args.max_size is None and not args.stale:
        raise UsageError("say what to prune: --older-than 30d, --max-size 500M or --stale; first with --dry-run")
    now = time.time()
    rule = PruneRule(args.older_than, args.max_size, args.stale)
    plan = plan_prune(places.all_holdings(places.root_of(args, own)), rule, now)
    failed = {} if args.dry_run else _execute(plan)
    if args.format == "json":
        print_json(_plan_json(plan, now, failed, dry_run=args.dry_run))
    else:
        _print_plan(plan, now, failed, dry_run=args.dry_run)
    for problem in failed.values():
        say(problem)
    return 1 if failed else 0


def _execute(plan: PrunePlan) -> dict[str, str]:
    """Remove what the plan names; what could not be removed, by path. Protection is looked at once more, under the lock."""
    from tunelaunch.store.store import Store

    failed = {}
    for decision in plan.remove:
        held = decision.holding
        removed = Store.open(Path(held.root)).remove(held.info.tid)
        if not removed.done or removed.problem is not None:
            failed[held.info.path] = str(removed.problem)
    return failed


def _print_plan(plan: PrunePlan, now: float, failed: dict[str, str], *, dry_run: bool) -> None:
    rows: list[tuple[Any, ...]] = [("", "TABLE", "SIZE", "USED", "WHY")]
    for decision in plan.remove:
        done = "failed" if decision.holding.info.path in failed else "gone"
        rows.append(_line("would go" if dry_run else done, decision, now))
    rows += [_line("stays", decision, now) for decision in plan.protected]
    if len(rows) > 1:
        print_columns(rows)
    if not plan.remove:
        print("nothing to prune")
    elif not failed:
        count = f"{len(plan.remove)} {'table' if len(plan.remove) == 1 else 'tables'}"
        before, after = cells.size_words(plan.bytes_before), cells.size_words(plan.bytes_after)
        print(f"{count} {'would be ' if dry_run else ''}removed: {before} -> {after}")
    if plan.over:
        print(f"{cells.size_words(plan.over)} more than asked for are left: those tables are protected (cache unpin)")


def _line(word: str, decision: Decision, now: float) -> tuple[Any, ...]:
    held = decision.holding
    age = f"{cells.age_words(now - held.used)} ago"
    return word, printable(held.name), cells.size_words(held.bytes), age, decision.why


def _plan_json(plan: PrunePlan, now: float, failed: dict[str, str], *, dry_run: bool) -> dict[str, Any]:
    def entry(decision: Decision) -> dict[str, Any]:
        held = decision.holding
        return {
            "device": held.info.device,
            "environment": held.info.environment,
            "path": held.info.path,
            "bytes": held.bytes,
            "unused_seconds": round(max(0.0, now - held.used), 1),
            "why": decision.why,
        }

    return {
        "remove": [
            entry(d)
            | {"done": not dry_run and d.holding.info.path not in failed, "problem": failed.get(d.holding.info.path)}
            for d in plan.remove
        ],
        "protected": [entry(d) for d in plan.protected],
        "bytes_before": plan.bytes_before,
        "bytes_after": plan.bytes_after,
        "bytes_over": plan.over,
    }
