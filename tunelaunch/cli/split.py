"""Which arguments are tunelaunch's and which are SGLang's.

Guarantees: own options are exact tokens (``--retune``, ``--tunelaunch-x V``, ``--tunelaunch-x=V``); everything else is
SGLang's, unchanged and in order, and so is everything from ``--`` on, the ``--`` included. SGLang's options are not
known here, so a *value* of a SGLang option that equals one of our tokens is taken for ours; ``--opt=value`` avoids it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tunelaunch import options
from tunelaunch.errors import UsageError
from tunelaunch.options import Own

ACTIONS = {"-h": "help", "--help": "help", "--version": "version", "--help-sglang": "help-sglang"}


@dataclass(frozen=True)
class Split:
    """One command line, taken apart. ``action`` is ``help``, ``version``, ``help-sglang`` or ``None``."""

    own: Own
    sglang: list[str] = field(default_factory=list)
    command: str | None = None
    command_args: list[str] = field(default_factory=list)
    action: str | None = None


def split(argv: Sequence[str]) -> Split:
    """Take ``argv`` (without the program's name) apart.

    The first argument that is not an own option is a command if it has no dash; what follows it is the command's, not
    read here. Raises :class:`UsageError` for an unknown ``--tunelaunch-*`` option and for a wrong or missing value.
    """
    given: dict[str, object] = {}
    rest: list[str] = []
    action: str | None = None
    position = 0
    while position < len(argv):
        token = argv[position]
        position += 1
        if token == "--":
            rest += [token, *argv[position:]]
            break
        if token in ACTIONS:
            action = action or ACTIONS[token]
        elif token == "--retune" or token.startswith(options.PREFIX):
            option, text = _own(token)
            if option.is_flag:
                given[option.field] = True
                continue
            if text is None:
                text = _next(option, argv, position)
                position += 1
            given[option.field] = options.parse_value(option, text)
        elif not rest and not action and not token.startswith("-"):
            return Split(Own(**given), [], token, list(argv[position:]))  # type: ignore[arg-type]
        else:
            rest.append(token)
    return Split(Own(**given), rest, action=action)  # type: ignore[arg-type]


def nearest(word: str, words: Sequence[str]) -> str:
    """The words most like ``word``, joined for a message; all of them when none is like it."""
    from difflib import get_close_matches

    return ", ".join(get_close_matches(word, words, n=3, cutoff=0.6) or words)


def _own(token: str) -> tuple[options.Option, str | None]:
    name, equals, text = token.partition("=")
    option = options.BY_TOKEN.get(name)
    if option is None:
        known = nearest(name, [o.token for o in options.OPTIONS])
        raise UsageError(f"unknown option {name}; nearest: {known} (tunelaunch --help lists them)")
    if option.is_flag and equals:
        raise UsageError(f"{name} takes no value")
    return option, text if equals else None


def _next(option: options.Option, argv: Sequence[str], position: int) -> str:
    # A dash here is far more often a forgotten value than a value; the other form says which is meant.
    if position >= len(argv) or argv[position].startswith("-"):
        raise UsageError(f"{option.token} needs a value ({option.metavar}); one with a dash: {option.token}=VALUE")
    return argv[position]
