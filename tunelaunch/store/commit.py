"""Read, change and replace one file while others do the same.

Guarantees: no writer's change is lost, with working locks or without; a kill at any moment leaves the old state or the
new one; a damaged file is set aside before it is replaced, a file that cannot be looked at is never replaced.

With a lock, writers queue. Without one (some NFS, a lock file of another user) the change is optimistic: the new bytes
are written beside the file, an exclusive claim on the state that was read is taken, the state is compared once more,
and only then the rename happens; if it moved on, all starts again from the new state.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from .files import Content, discard, ensure_directory, inside, install, read, read_bytes, set_aside, sweep, write_temp
from .lock import claimed, locked
from .problems import Problem, Refused, reason

ATTEMPTS = 32
FIRST_S, LATER_S = 5.0, 0.5
CLAIM_PATIENCE_S = 1.0

T = TypeVar("T")
Judge = Callable[[Any], "tuple[str, Problem] | None"]
"""Looks at a JSON value that did parse; if it is of no use: a slug that says why, and the problem."""


@dataclass(frozen=True)
class Target:
    """A file that is changed: its path, its lock file, the root that it must lie under, and who judges its value."""

    path: Path
    lock: Path
    root: Path
    judge: Judge


@dataclass(frozen=True)
class Change(Generic[T]):
    """What to write (``None``: nothing) and what to tell the caller. ``prepare`` runs first."""

    data: bytes | None
    outcome: T
    prepare: Callable[[], None] | None = None


def update(target: Target, change: Callable[[Content], Change[T]], problems: list[Problem]) -> Change[T] | None:
    """Apply ``change`` to ``target``; what went wrong is appended to ``problems``.

    ``change`` gets what is there and may run several times; it may raise :class:`Refused`. Returns the change that was
    made, or ``None`` if none could be.
    """
    try:
        for attempt in range(ATTEMPTS):
            try:
                problems += ensure_directory(target.path.parent, target.root)
                # Whoever holds the lock for seconds is stuck: later attempts do not wait for it again.
                with locked(target.lock, LATER_S if attempt else FIRST_S) as held:
                    made = _attempt(target, change, held, problems)
            except FileNotFoundError:
                # The table was removed under our feet: it is made anew, unless that never works.
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            if made is not None:
                return made
    except Refused as refused:
        problems.append(refused.problem)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        why = f"cannot be written ({reason(error)})"
        problems.append(Problem(str(target.path), why, "the earlier state stays", getattr(error, "errno", None)))
    else:
        problems.append(
            Problem(str(target.path), "was changed by others at every attempt", "nothing written; the next start tries")
        )
    return None


def look(target: Target, problems: list[Problem]) -> Content:
    """Read ``target`` and set it aside if it is damaged, which is decided again under the lock. Never raises."""
    content = examine(target)
    if content.damage is None:
        return content
    with locked(target.lock) if inside(target.root, target.lock) else nullcontext():
        content = examine(target)
        return _clear(target.path, content, problems) if content.damage else content


def examine(target: Target) -> Content:
    """Read ``target`` and judge what it holds; nothing is moved. Never raises."""
    content = read(target.path, target.root)
    verdict = target.judge(content.value) if content.raw is not None else None
    return Content(damage=verdict[0], problem=verdict[1], inode=content.inode) if verdict else content


def _attempt(
    target: Target, change: Callable[[Content], Change[T]], held: bool, problems: list[Problem]
) -> Change[T] | None:
    content = examine(target)
    if content.problem and not content.damage:
        raise Refused(replace(content.problem, action="left as it is; nothing is written there"))
    if content.damage:
        damaged, content = content, _clear(target.path, content, problems)
        if damaged.inode is not None and read(target.path, target.root).inode == damaged.inode:
            raise Refused(replace(problems.pop(), action="cannot be moved away; nothing is written there"))
    made = change(content)
    if made.prepare:
        made.prepare()
    if made.data is None:
        return made
    temp = write_temp(target.path, made.data)
    # With the lock in hand a claim can only be left over from a dead process: not waited for.
    with claimed(target.path, content.raw, 0.0 if held else CLAIM_PATIENCE_S):
        if read_bytes(target.path) != content.raw:
            discard(temp)
            return None
        install(temp, target.path)
    if held:
        sweep(target.path.parent)
    return made


def _clear(path: Path, content: Content, problems: list[Problem]) -> Content:
    """Set a damaged file aside, say so, and go on as if nothing had been there."""
    moved = set_aside(path, content.damage or "odd", content.inode)
    found = content.problem or Problem(str(path), "is damaged", "")
    problems.append(replace(found, action=f"set aside as {moved.name}" if moved else "not used, left in place"))
    return Content()
