"""``tunelaunch cache``: the tables on disk. One module for each kind of command.

Commands that look change nothing, not even a damaged file. Commands that change something say what with ``--dry-run``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from tunelaunch.cli.cache import change, differ, look, quarantine, removal, verify
from tunelaunch.options import Own

EXAMPLES = """\
TABLE is DEVICE/ENVIRONMENT as `cache ls` prints it, or the beginning of either; it can be left out when there is only
one. TABLE@N, or N alone, is generation N of it.

examples
  tunelaunch cache ls                     all tables: sizes, ages, quarantined tactics
  tunelaunch cache show                   every row: tactic, microseconds against default, why
  tunelaunch cache diff                   what the last write changed
  tunelaunch cache rollback               put the generation before back
  tunelaunch cache prune --older-than 30d --dry-run
"""


def run(argv: Sequence[str], own: Own) -> int:
    """Run one cache command; raises :class:`StoreError` where it is refused, :class:`UsageError` for wrong arguments."""
    args = _parser().parse_args(list(argv))
    action: Callable[[argparse.Namespace, Own], int] = args.action
    return action(args, own)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tunelaunch cache",
        description="The tables on disk.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="what")
    for part in (look, differ, verify, change, removal, quarantine):
        part.add_to(commands)
    return parser
