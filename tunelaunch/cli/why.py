"""``tunelaunch why [SGLANG ARGUMENTS]``: whether a start here would find its table, and if not, which field differs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tunelaunch import contract, launch, options
from tunelaunch.cli import places
from tunelaunch.cli.doctor_arguments import Asked, seconds, take
from tunelaunch.cli.output import print_json
from tunelaunch.cli.why_text import print_answers
from tunelaunch.device.environment import Environment
from tunelaunch.device.identity import table_id
from tunelaunch.doctor import known
from tunelaunch.doctor.asking import DEFAULT_TIMEOUT_S
from tunelaunch.doctor.lookup import LOCAL, OVERLAY, Lookup, Sources, look_up, with_tag
from tunelaunch.doctor.recorded import Known
from tunelaunch.errors import IdentityError
from tunelaunch.options import Own

SCHEMA = "tunelaunch/why/1"
EXAMPLES = """\
Nothing is loaded, tuned or written, and no remote is asked. A hit means that a start finds rows of its device and environment;
which of their scopes it needs (dtypes, quantization, top-k) is known only once the model is read.

exit codes: 0 the question was answered; with --check 1 for a miss and where it is unknown

examples
  tunelaunch why --model-path /models/current --tp 2
  tunelaunch doctor --save-facts host.json        on the real host, then anywhere:
  tunelaunch why --facts host.json --tunelaunch-cache /mnt/tables
"""


def run(argv: Sequence[str], own: Own) -> int:
    """Print the answer for each kind of GPU; 1 with ``--check`` unless all are hits."""
    asked = take(_parser(), argv, own)
    filled, ignored = options.fill(asked.own, os.environ)
    situation = _situation(asked)
    tag = asked.own.tag if asked.own.tag is not None else os.environ.get(contract.TAG)
    sources = _sources(filled)
    answers = [_answer(device, tag, sources) for device in _distinct(situation.facts.devices)]
    if not answers:
        answers = [_no_device(situation, sources)]
    result = {
        "schema": SCHEMA,
        "source": situation.facts.source,
        "hit": all(answer["hit"] for answer in answers) if all(a["hit"] is not None for a in answers) else None,
        "retune": bool(filled.retune),
        "answers": answers,
        "problems": [*ignored, *situation.problems],
    }
    if asked.args.format == "json":
        print_json(result)
    else:
        print_answers(result)
    return 1 if asked.args.check and not result["hit"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tunelaunch why",
        usage="tunelaunch why [options] [SGLang's arguments]",
        description="Whether a start would find its table: hit or miss, and the fields that differ from the nearest one.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--facts", metavar="FILE", type=Path, help="answer for the host that FILE describes")
    parser.add_argument("--check", action="store_true", help="exit 1 unless it is a hit")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, default=DEFAULT_TIMEOUT_S, help="to wait for FlashInfer [180]"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="for people, or for programs")
    return parser


def _situation(asked: Asked) -> known.Situation:
    if asked.args.facts is not None:
        return known.from_file(asked.args.facts)
    return known.from_host(["environment"], asked.sglang, os.environ, timeout_s=asked.args.timeout)


def _sources(own: Own) -> Sources:
    root = launch.cache_root(own.cache, os.environ)
    roots = [(LOCAL, root)]
    overlay = places.overlay()
    if overlay.is_dir() and overlay != root:
        roots.append((OVERLAY, overlay))
    return Sources(tuple(roots), contract.paths_in(os.environ.get(contract.SEEDS)), own.remote or "")


def _distinct(devices: Sequence[Known]) -> list[Known]:
    """One device of each kind: equal cards share a table."""
    found: dict[tuple[str, str], Known] = {}
    for device in devices:
        found.setdefault((device.device.slug, device.environment.id if device.environment else ""), device)
    return list(found.values())


def _answer(device: Known, tag: str | None, sources: Sources) -> dict[str, Any]:
    facts, environment = device.device, device.environment
    base: dict[str, Any] = {"device": facts.to_json(), "title": f"{facts.title}, {facts.family}"}
    if environment is None:
        return base | _unknown("FlashInfer's part of the environment is not known here", None, sources)
    environment = with_tag(environment, tag)
    try:
        tid = table_id(facts, environment)
    except IdentityError as why:
        return base | _unknown(str(why), environment, sources)
    return base | _told(look_up(tid, environment, sources), environment)


def _told(found: Lookup, environment: Environment) -> dict[str, Any]:
    return {
        "hit": found.hit,
        "unknown": None,
        "table": str(found.tid),
        "environment": environment.to_json(),
        "looked": [place.to_json() for place in found.looked],
        "ops": [op.to_json() for op in found.ops],
        "nearest": None if found.nearest is None else found.nearest.to_json(),
    }


def _unknown(why: str, environment: Environment | None, sources: Sources) -> dict[str, Any]:
    """What can be said all the same: where a start would look."""
    return {
        "hit": None,
        "unknown": why,
        "table": None,
        "environment": None if environment is None else environment.to_json(),
        "looked": [
            {"kind": kind, "place": place, "asked": False, "rows": None, "generation": None, "problems": []}
            for kind, place in sources.named()
        ],
        "ops": [],
        "nearest": None,
    }


def _no_device(situation: known.Situation, sources: Sources) -> dict[str, Any]:
    reason = situation.reading.problem or situation.visible.note or "no device"
    where = f"no NVIDIA GPU is visible here ({reason})" if situation.live else "the file names no GPU"
    why = f"{where}, so there is no table to look for; for another host: --facts FILE"
    return {"device": None, "title": "no GPU"} | _unknown(why, situation.libraries, sources)
