"""``tunelaunch cache dir|ls|show``: what there is."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tunelaunch.cli import cells, places
from tunelaunch.cli.cache.names import Commands, command, find, ref_of, state
from tunelaunch.cli.output import print_columns, print_json, printable, say
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.store.holdings import Holding
    from tunelaunch.store.rows import Row
    from tunelaunch.store.scan import TableInfo


def add_to(commands: Commands) -> None:
    """Add these commands."""
    command(commands, "dir", _dir, "Print the root of the tables.", "  tunelaunch cache dir")
    command(
        commands,
        "ls",
        _ls,
        "List all tables: rows, quarantined tactics, size of all files, time since the last use.",
        "  tunelaunch cache ls --format json",
    )
    show = command(
        commands,
        "show",
        _show,
        "Print a table: what each row chose, how it was judged, and which tactics are quarantined.",
        "  tunelaunch cache show\n  tunelaunch cache show nvidia-h200@3    an earlier generation",
        table=True,
    )
    show.add_argument("--keys", action="store_true", help="print FlashInfer's key of each row, too")


def _dir(args: argparse.Namespace, own: Own) -> int:
    root = places.root_of(args, own)
    if args.format == "json":
        print_json({"root": str(root), "overlay": str(places.overlay())})
    else:
        print(root)
    return 0


def _ls(args: argparse.Namespace, own: Own) -> int:
    root = places.root_of(args, own)
    tables = places.all_holdings(root)
    now = time.time()
    if args.format == "json":
        print_json({"root": str(root), "tables": [holding_json(t, now) for t in tables]})
        return 0
    if not tables:
        say(f"no table under {root}; a start of SGLang through tunelaunch that tunes makes one")
        return 0
    head = ("DEVICE", "ENVIRONMENT", "GEN", "ROWS", "QUARANTINED", "SIZE", "USED", "WRITTEN (UTC)", "STATE", "PATH")
    print_columns([head, *(_line(table, now) for table in tables)])
    for table in tables:
        if table.info.problem is not None:
            say(str(table.info.problem))
    return 0


def _line(table: Holding, now: float) -> tuple[object, ...]:
    info = table.info
    state = [
        word for word, holds in (("damaged", info.problem), ("pinned", info.pinned), ("in use", table.users)) if holds
    ]
    return (
        info.device,
        info.environment,
        info.generation,
        info.rows,
        table.quarantined,
        cells.size_words(table.bytes),
        f"{cells.age_words(now - table.used)} ago",
        cells.time_words(info.mtime),
        ", ".join(state) or cells.NONE,
        info.path,
    )


def _show(args: argparse.Namespace, own: Own) -> int:
    ref = ref_of(args.table)
    info = find(args, own, ref.table)
    table = state(info, ref.generation)
    store = places.store_to_read(places.root_of_table(info))
    environment = _fields(store.read_environment(info.tid) or {})
    quarantine = store.read_quarantine(info.tid)
    users = store.users(info.tid)
    for problem in store.problems:
        say(str(problem))
    if args.format == "json":
        print_json(
            {
                **info_json(info),
                "generation": table.generation,
                "rows": len(table.rows),
                "fields": environment,
                "written": dict(table.written),
                "table_rows": [row.to_json() for row in table.rows],
                "quarantine": [dict(entry) for entry in quarantine],
                "users": [{"launch": u.launch, "pid": u.pid, "host": u.host} for u in users],
            }
        )
        return 0
    said = f"{info.device}/{info.environment}  generation {table.generation}, {len(table.rows)} rows"
    print(f"{said}{', pinned' if table.pinned else ''}, {info.path}")
    for user in users:
        print(printable(f"  in use by {user}"))
    for name, value in sorted(environment.items()):
        print(printable(f"  {name} = {value}"))
    if table.rows:
        _print_rows(table.rows, keys=args.keys)
    if quarantine:
        _print_quarantine(quarantine)
    return 0


def _print_rows(rows: Sequence[Row], *, keys: bool) -> None:
    from tunelaunch.store.diff import tokens_of

    head = ["OP", "TOKENS", "TACTIC", "US", "DEFAULT US", "RUNNER-UP US", "GAIN", "CHECKED", "RUNNER", "SCOPE", "WHY"]
    lines: list[list[object]] = [[*head, "KEY"] if keys else [*head]]
    for row in sorted(rows, key=lambda r: (r.op, r.scope or "", tokens_of(r) is None, tokens_of(r) or 0, r.key)):
        evidence = row.evidence
        us = evidence.get("us")
        times: Mapping[str, Any] = us if isinstance(us, Mapping) else {}
        tokens = tokens_of(row)
        why = cells.text(evidence.get("why"))
        cell: list[object] = [
            row.op or cells.NONE,
            cells.NONE if tokens is None else tokens,
            cells.tactic_words(row.tactic),
            cells.number(times.get("winner")),
            cells.number(times.get("default")),
            cells.number(times.get("runner_up")),
            cells.percent(evidence.get("gain_percent")),
            _checked(evidence.get("checked")),
            row.runner,
            row.scope or cells.NONE,
            why if why != cells.NONE else _untried(evidence),
        ]
        lines.append([*cell, row.key] if keys else cell)
    print()
    print_columns(lines)


def _checked(checked: Any) -> str:
    """The error against default that verification saw, beside the one that may pass."""
    if not isinstance(checked, Mapping) or not isinstance(error := checked.get("frobenius"), (int, float)):
        return cells.NONE
    limits = checked.get("limits")
    limit = limits[0] if isinstance(limits, list) and limits else None
    return f"{error:.2g}" + (f" of {limit:.2g}" if isinstance(limit, (int, float)) else "")


def _untried(evidence: Mapping[str, Any]) -> str:
    trial = cells.text(evidence.get("trial"))
    return cells.NONE if trial == cells.NONE else f"trial {trial}"


def _print_quarantine(entries: Sequence[Mapping[str, Any]]) -> None:
    print(f"\n{len(entries)} quarantined; to try one again: tunelaunch cache unquarantine --op OP --tactic TACTIC")
    head = ("OP", "TACTIC", "RUNNER", "SCOPE", "SINCE", "EXPIRES", "WHY", "SEEN")
    lines = [
        (
            cells.text(entry.get("op") or entry.get("key")),
            cells.tactic_words(entry.get("tactic")),
            cells.text(entry.get("runner")),
            cells.text(entry.get("scope")),
            _when(entry.get("at")),
            "never" if entry.get("expires") is None else _when(entry["expires"]),
            cells.text(entry.get("why")),
            cells.NONE if entry.get("seen") is None else str(entry["seen"]),
        )
        for entry in entries
    ]
    print_columns([head, *lines])


def _when(value: Any) -> str:
    return cells.time_words(value) if isinstance(value, (int, float)) else cells.text(value)


def holding_json(table: Holding, now: float) -> dict[str, Any]:
    """A listed table for programs; sizes in bytes, ages in seconds."""
    return {
        **info_json(table.info),
        "total_bytes": table.bytes,
        "unused_seconds": round(max(0.0, now - table.used), 1),
        "quarantined": table.quarantined,
        "users": [{"launch": u.launch, "pid": u.pid, "host": u.host} for u in table.users],
    }


def info_json(info: TableInfo) -> dict[str, Any]:
    """What a scan found, for programs."""
    return {
        "device": info.device,
        "environment": info.environment,
        "generation": info.generation,
        "rows": info.rows,
        "bytes": info.bytes,
        "mtime": info.mtime,
        "path": info.path,
        "pinned": info.pinned,
        "problem": None if info.problem is None else str(info.problem),
    }


def _fields(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The environment's fields, whether they were published as they are or inside a whole environment."""
    inner = environment.get("fields")
    return dict(inner) if isinstance(inner, Mapping) else dict(environment)
