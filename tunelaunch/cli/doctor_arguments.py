"""The arguments of ``why`` and ``doctor``: exact tokens of their own, tunelaunch's own options, the rest is SGLang's."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tunelaunch.cli.split import split
from tunelaunch.errors import UsageError
from tunelaunch.options import Own


@dataclass(frozen=True)
class Asked:
    """One command line, taken apart: the command's options, own options (those after the command win), SGLang's."""

    args: argparse.Namespace
    own: Own
    sglang: tuple[str, ...]


def take(parser: argparse.ArgumentParser, argv: Sequence[str], own: Own) -> Asked:
    """Take ``argv`` apart. ``parser`` knows the command's options, each an exact token with at most one value.

    From ``--`` on everything is SGLang's. Raises :class:`UsageError`; help and argparse's own errors end the process.
    """
    options = {name: action for action in parser._actions for name in action.option_strings}
    ours: list[str] = []
    rest: list[str] = []
    left = list(argv)
    while left:
        token = left.pop(0)
        name, equals, _ = token.partition("=")
        if token == "--":
            rest += left if not rest else [token, *left]
            break
        if token in ("-h", "--help") or (name in options and name.startswith("--")):
            ours.append(token)
            if not equals and left and options[name].nargs is None:
                ours.append(left.pop(0))
        else:
            rest.append(token)
    args = parser.parse_args(ours)
    if rest and not rest[0].startswith("-"):
        raise UsageError(f"{parser.prog}: {rest[0]!r} is no option; SGLang's arguments start with a dash")
    parts = split(rest)
    given = {name: value for name, value in dataclasses.asdict(parts.own).items() if value is not None}
    return Asked(args, dataclasses.replace(own, **given), tuple(parts.sglang))


def seconds(text: str) -> float:
    """A positive number of seconds; raises :class:`argparse.ArgumentTypeError`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and 3600")
    return value
