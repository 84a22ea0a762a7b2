"""``tunelaunch doctor [SGLANG ARGUMENTS]``: what would go wrong at a start, before it does."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from tunelaunch import launch, options
from tunelaunch.cli.doctor_arguments import Asked, seconds, take
from tunelaunch.cli.doctor_text import print_examination
from tunelaunch.cli.output import print_json, say
from tunelaunch.doctor import known
from tunelaunch.doctor.asking import DEFAULT_TIMEOUT_S, ask
from tunelaunch.doctor.examine import Examination, examine
from tunelaunch.doctor.findings import is_blocked
from tunelaunch.errors import StoreError
from tunelaunch.options import Own

EXAMPLES = """\
SGLang's own parser reads the arguments; what SGLang decides only with a device and a model is said to be unknown.

exit codes: 0 nothing blocks a start, 1 something does

examples
  tunelaunch doctor --model-path /models/current --tp 2
  tunelaunch doctor --save-facts host.json        to ask elsewhere: tunelaunch why --facts host.json
  tunelaunch doctor --facts host.json --moe-runner-backend flashinfer_trtllm
"""


def run(argv: Sequence[str], own: Own) -> int:
    """Print all findings; 1 when one of them blocks a start."""
    asked = take(_parser(), argv, own)
    situation = _situation(asked)
    own, ignored = options.fill(asked.own, os.environ)
    root = launch.cache_root(own.cache, os.environ)
    examination = examine(situation, root, os.environ, date.today(), ignored)
    if asked.args.format == "json":
        print_json(examination.to_json())
    else:
        print_examination(examination)
    if asked.args.save_facts is not None:
        _save(asked.args.save_facts, examination)
    return 1 if is_blocked(examination.findings) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tunelaunch doctor",
        usage="tunelaunch doctor [options] [SGLang's arguments]",
        description="What would go wrong at a start, before it does: GPU, tools, directories, releases, arguments.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--facts", metavar="FILE", type=Path, help="judge the host that FILE describes")
    parser.add_argument("--save-facts", metavar="FILE", type=Path, help="write what is known about this host to FILE")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, default=DEFAULT_TIMEOUT_S, help="to wait for SGLang [180]"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="for people, or for programs")
    return parser


def _situation(asked: Asked) -> known.Situation:
    timeout_s = asked.args.timeout
    if asked.args.facts is None:
        return known.from_host(["sglang", "environment"], asked.sglang, os.environ, timeout_s=timeout_s)
    # The file is read first: a wrong name should not cost half a minute.
    known.from_file(asked.args.facts)
    return known.from_file(asked.args.facts, ask(["sglang"], asked.sglang, timeout_s=timeout_s))


def _save(path: Path, examination: Examination) -> None:
    text = json.dumps(examination.situation.facts.to_json(), indent=2, ensure_ascii=True) + "\n"
    try:
        path.write_text(text, encoding="ascii")
    except OSError as why:
        raise StoreError(f"facts cannot be written to {path} ({why.strerror}); nothing saved") from why
    say(f"facts of {len(examination.situation.facts.devices)} GPUs written to {path}")
