"""``tunelaunch cache dir|ls|show|verify|rollback``: the tables on disk.

Only ``rollback`` changes anything, and says what with ``--dry-run``; the others leave damaged files where they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tunelaunch.cli import places
from tunelaunch.cli.output import add_common, print_columns, print_json, printable, say
from tunelaunch.errors import StoreError
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.store.scan import TableInfo


def run(argv: Sequence[str], own: Own) -> int:
    """Run one cache command; raises :class:`StoreError` where it is refused."""
    args = _parser().parse_args(list(argv))
    action: Callable[[argparse.Namespace, Own], int] = args.action
    return action(args, own)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tunelaunch cache", description="The tables on disk.", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="what")

    def command(name: str, action: Callable[..., int], text: str, *, table: bool = False) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        add_common(made)
        made.set_defaults(action=action)
        if table:
            made.add_argument(
                "table", nargs="?", help="DEVICE/ENVIRONMENT or the beginning of one; needed only if there are several"
            )
        return made

    command("dir", _dir, "Print the root of the tables.")
    command("ls", _ls, "List all tables.")
    command("show", _show, "Print the rows of a table.", table=True)
    command("verify", _verify, "Read every table; exit 1 if one is damaged.", table=True)
    rollback = command("rollback", _rollback, "Put an earlier generation of a table back.", table=True)
    rollback.add_argument("--generation", type=int, metavar="N", help="which one (default: the one before)")
    rollback.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing")
    return parser


def _dir(args: argparse.Namespace, own: Own) -> int:
    root = places.root_of(args, own)
    if args.format == "json":
        print_json({"root": str(root), "overlay": str(places.overlay())})
    else:
        print(root)
    return 0


def _ls(args: argparse.Namespace, own: Own) -> int:
    root = places.root_of(args, own)
    tables = places.all_tables(root)
    if args.format == "json":
        print_json({"root": str(root), "tables": [_info_json(t) for t in tables]})
        return 0
    if not tables:
        say(f"no table under {root}")
        return 0
    head = ("DEVICE", "ENVIRONMENT", "GENERATION", "ROWS", "BYTES", "WRITTEN (UTC)", "PATH")
    print_columns(
        [head, *((t.device, t.environment, t.generation, t.rows, t.bytes, _time(t.mtime), t.path) for t in tables)]
    )
    for table in tables:
        if table.problem is not None:
            say(str(table.problem))
    return 0


def _show(args: argparse.Namespace, own: Own) -> int:
    info = places.pick(places.all_tables(places.root_of(args, own)), args.table)
    store = places.store_to_read(places.root_of_table(info))
    loaded = store.load(info.tid)
    for problem in loaded.problems:
        say(str(problem))
    if loaded.table is None:
        raise StoreError(f"{info.path} holds no table that can be used")
    environment = _fields(store.read_environment(info.tid) or {})
    rows = loaded.table.rows
    if args.format == "json":
        print_json({**_info_json(info), "fields": environment, "table_rows": [row.to_json() for row in rows]})
        return 0
    print(f"{info.device}/{info.environment}  generation {info.generation}, {len(rows)} rows, {info.path}")
    for name, value in sorted(environment.items()):
        print(printable(f"  {name} = {value}"))
    if rows:
        head = ("OP", "RUNNER", "TACTIC", "SCOPE", "KEY")
        print_columns([head, *((row.op, row.runner, row.tactic, row.scope or "-", row.key) for row in rows)])
    return 0


def _verify(args: argparse.Namespace, own: Own) -> int:
    tables = places.all_tables(places.root_of(args, own))
    chosen = [places.pick(tables, args.table)] if args.table else tables
    found: list[dict[str, Any]] = []
    for info in chosen:
        problems = [str(p) for p in places.store_to_read(places.root_of_table(info)).load(info.tid).problems]
        if not problems and info.problem is not None:
            problems = [str(info.problem)]
        found.append({**_info_json(info), "problems": problems})
    damaged = [item for item in found if item["problems"]]
    if args.format == "json":
        print_json({"tables": found, "damaged": len(damaged)})
    else:
        for item in found:
            print(f"{'damaged' if item['problems'] else 'good'}  {item['device']}/{item['environment']}")
            for problem in item["problems"]:
                print(printable(f"  {problem}"))
        if not found:
            say("no table to verify")
    return 1 if damaged else 0


def _rollback(args: argparse.Namespace, own: Own) -> int:
    from tunelaunch.store.store import Store

    info = places.pick(places.all_tables(places.root_of(args, own)), args.table)
    root = places.root_of_table(info)
    # history() only lists; a dry run must not create or repair anything on the way.
    earlier = places.store_to_read(root).history(info.tid)
    older = [n for n in earlier if n < info.generation] or earlier
    target = args.generation if args.generation is not None else max(older, default=None)
    name = f"{info.device}/{info.environment}"
    if target is None or target not in earlier:
        known = ", ".join(map(str, earlier)) or "none"
        wanted = "an earlier generation" if target is None else f"generation {target}"
        raise StoreError(f"{name} has no {wanted} to go back to; kept: {known}; nothing was changed")
    result = {"device": info.device, "environment": info.environment, "from": info.generation, "to": target}
    if args.dry_run:
        _tell(args, {**result, "done": False}, f"would put generation {target} of {name} back (now {info.generation})")
        return 0
    published = Store.open(root).rollback(info.tid, args.generation)
    if published.generation is None:
        raise StoreError("; ".join(map(str, published.problems)) or f"{name} could not be rolled back")
    for problem in published.problems:
        say(str(problem))
    result["to"] = published.generation
    text = f"{name}: generation {published.generation} is back (was {info.generation}); running servers keep their rows"
    _tell(args, {**result, "done": True}, text)
    return 0


def _tell(args: argparse.Namespace, result: dict[str, Any], text: str) -> None:
    if args.format == "json":
        print_json(result)
    else:
        print(text)


def _info_json(info: TableInfo) -> dict[str, Any]:
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


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S}"
