"""``tunelaunch cache rollback|pin|unpin``: go back to a generation, protect rows from being replaced."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tunelaunch.cli import places
from tunelaunch.cli.cache.names import Commands, Ref, command, find, kept, name_of, previous, ref_of
from tunelaunch.cli.output import say, tell
from tunelaunch.errors import StoreError, UsageError
from tunelaunch.options import Own

if TYPE_CHECKING:
    from tunelaunch.store.outcome import Published

ROLLBACK = """\
  tunelaunch cache rollback                    the generation before
  tunelaunch cache rollback 3                  generation 3 of the only table
  tunelaunch cache rollback nvidia-h200@3 --dry-run

To undo it, roll back to the number that is printed as "was"."""


def add_to(commands: Commands) -> None:
    """Add these commands."""
    text = "Put an earlier generation of a table back, byte for byte."
    rollback = command(commands, "rollback", _rollback, text, ROLLBACK, dry_run=True)
    rollback.add_argument("which", nargs="*", metavar="TABLE | N", help="table, generation, or TABLE@N for both")
    rollback.add_argument("--generation", type=int, metavar="N", help="the generation, instead of N")
    for name, action, text in (
        (
            "pin",
            _pin,
            "Protect the rows of a table: no launch replaces them, --retune included; prune and rm leave it.",
        ),
        ("unpin", _unpin, "Lift the protection of a table."),
    ):
        command(commands, name, action, text, f"  tunelaunch cache {name} nvidia-h200", table=True, dry_run=True)


def _rollback(args: argparse.Namespace, own: Own) -> int:
    from tunelaunch.store.store import Store

    ref = _wanted(args)
    info = find(args, own, ref.table)
    root, name = places.root_of_table(info), name_of(info)
    # history() only lists; a dry run must not create or repair anything on the way.
    earlier = places.store_to_read(root).history(info.tid)
    target = ref.generation if ref.generation is not None else previous(info)
    if target is None or target not in earlier:
        wanted = "earlier generation" if target is None else f"generation {target}"
        raise StoreError(f"{name} has no {wanted} to go back to; {kept(info)}; nothing was changed")
    if info.pinned:
        # The earlier bytes come back as they were, without the pin: what was to be kept would be open to any tuning.
        raise StoreError(f"{name} is pinned; nothing was changed. To roll back: tunelaunch cache unpin {name}")
    result = {"device": info.device, "environment": info.environment, "from": info.generation, "to": target}
    if args.dry_run:
        text = f"would put generation {target} of {name} back (now {info.generation}); it differs as this shows: "
        tell(args, {**result, "done": False}, f"{text}tunelaunch cache diff {name}@{info.generation} {target}")
        return 0
    published = Store.open(root).rollback(info.tid, ref.generation)
    result["to"] = _done(published, f"{name} could not be rolled back")
    text = f"{name}: generation {result['to']} is back (was {info.generation}); running servers keep their rows"
    tell(args, {**result, "done": True}, text)
    return 0


def _wanted(args: argparse.Namespace) -> Ref:
    """``[TABLE] [N]``, ``TABLE@N`` and ``--generation N`` together; raises :class:`UsageError` when they disagree."""
    refs = [ref_of(given) for given in args.which] + (
        [Ref(None, args.generation)] if args.generation is not None else []
    )
    tables = [ref.table for ref in refs if ref.table is not None]
    numbers = [ref.generation for ref in refs if ref.generation is not None]
    if len(tables) > 1 or len(numbers) > 1:
        raise UsageError("give one table and one generation at most: tunelaunch cache rollback TABLE@N")
    return Ref(tables[0] if tables else None, numbers[0] if numbers else None)


def _pin(args: argparse.Namespace, own: Own) -> int:
    return _protect(args, own, True)


def _unpin(args: argparse.Namespace, own: Own) -> int:
    return _protect(args, own, False)


def _protect(args: argparse.Namespace, own: Own, pinned: bool) -> int:
    from tunelaunch.store.store import Store

    info = find(args, own, args.table)
    name, word = name_of(info), "pinned" if pinned else "not pinned"
    result = {"device": info.device, "environment": info.environment, "pinned": pinned, "was": info.pinned}
    if info.problem is not None:
        raise StoreError(f"{info.problem}; nothing was changed; run: tunelaunch cache verify {name}")
    if info.pinned == pinned:
        tell(args, {**result, "done": False}, f"{name} is {word} already")
        return 0
    if args.dry_run:
        tell(args, {**result, "done": False}, f"{name} would be {word}")
        return 0
    generation = _done(Store.open(places.root_of_table(info)).pin(info.tid, pinned), f"{name} could not be changed")
    tell(args, {**result, "generation": generation, "done": True}, f"{name} is {word} (generation {generation})")
    return 0


def _done(published: Published, otherwise: str) -> int:
    """The generation that was written; raises :class:`StoreError` when none was."""
    if published.generation is None:
        raise StoreError("; ".join(map(str, published.problems)) or otherwise)
    for problem in published.problems:
        say(str(problem))
    return published.generation
