"""Entry point and the one error boundary of the command line.

Exit codes: 0 done, 1 refused or failed with a named reason, 2 usage, 3 a bug in tunelaunch, 130 interrupted. After the
hand-over the code is SGLang's own. A command's module is imported only when that command runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tunelaunch import __version__
from tunelaunch.cli.split import Split, nearest, split
from tunelaunch.errors import TunelaunchError, UsageError

BUG = 3
INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run one command line (``sys.argv`` without the program's name by default) and return its exit code."""
    try:
        code = _run(split(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None:
            sys.stdout.flush()
    except TunelaunchError as why:
        _complain(str(why))
        return why.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Without this the interpreter complains while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except SystemExit as stop:  # argparse of a command, and --help of one
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except Exception:
        return _bug()
    return code


def _run(parts: Split) -> int:
    if parts.action == "help":
        from tunelaunch.cli.usage import HELP

        print(HELP, end="")
        return 0
    if parts.action == "version":
        from tunelaunch.cli.versions import version_lines

        print("\n".join(version_lines()))
        return 0
    if parts.command is not None:
        return _command(parts)
    if parts.action is None and not parts.sglang:
        raise UsageError("nothing to launch: give SGLang's arguments or a command (tunelaunch --help)")
    from tunelaunch.launch import LaunchPlan, execute, launch

    if parts.action == "help-sglang":
        execute(LaunchPlan(argv=(sys.executable, "-m", "sglang.launch_server", "--help")))
    launch(parts.own, parts.sglang)


def _command(parts: Split) -> int:
    run = COMMANDS.get(parts.command or "")
    if run is None:
        known = nearest(parts.command or "", list(COMMANDS))
        raise UsageError(
            f"unknown command {parts.command!r}; nearest: {known}. Commands: {', '.join(COMMANDS)}. "
            "To launch, SGLang's arguments start with a dash"
        )
    return run(parts)


def _cache(parts: Split) -> int:
    from tunelaunch.cli import cache

    return cache.run(parts.command_args, parts.own)


def _demo(parts: Split) -> int:
    from tunelaunch.demo.run import main as demo

    return demo(list(parts.command_args))


def _doctor(parts: Split) -> int:
    from tunelaunch.cli import doctor

    return doctor.run(parts.command_args, parts.own)


def _why(parts: Split) -> int:
    from tunelaunch.cli import why

    return why.run(parts.command_args, parts.own)


def _report(parts: Split) -> int:
    from tunelaunch.cli import report

    return report.run(parts.command_args, parts.own)


def _export(parts: Split) -> int:
    from tunelaunch.cli import export

    return export.run(parts.command_args, parts.own)


def _import(parts: Split) -> int:
    from tunelaunch.cli import import_

    return import_.run(parts.command_args, parts.own)


def _push(parts: Split) -> int:
    from tunelaunch.cli import push

    return push.run(parts.command_args, parts.own)


def _pull(parts: Split) -> int:
    from tunelaunch.cli import pull

    return pull.run(parts.command_args, parts.own)


COMMANDS: dict[str, Callable[[Split], int]] = {
    "cache": _cache,
    "demo": _demo,
    "doctor": _doctor,
    "export": _export,
    "import": _import,
    "pull": _pull,
    "push": _push,
    "report": _report,
    "why": _why,
}


def _complain(text: str) -> None:
    if sys.stderr is None:
        return  # closed by the caller: print() would take standard output instead
    try:
        print(f"tunelaunch: {text}", file=sys.stderr)
    except (OSError, ValueError):
        pass


def _bug() -> int:
    import traceback

    try:
        traceback.print_exc()
    except (OSError, ValueError):
        pass
    _complain(
        f"this is a bug in tunelaunch {__version__}, not in your setup. Please report it with the lines above and the "
        "output of: tunelaunch --version. To start without tunelaunch: python -m sglang.launch_server"
    )
    return BUG
