"""The table of supported releases, made from what the release tests found and from what was run on a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- matrix -->", "<!-- /matrix -->"
_KEYS = {
    "shapes": "shapes only; rows are kept apart by scope",
    "ranks": "with ranks; rows are kept as whole sets",
    "full": "full",
}


FIGURES = Path(__file__).resolve().parents[2] / "benchmarks" / "figures"


@cache
def ran_on_gpu() -> Mapping[tuple[str, str], str]:
    """{(SGLang, FlashInfer): GPU} of the starts whose figures are kept in ``benchmarks/figures``."""
    found = {}
    for path in sorted(FIGURES.glob("*-cycle.json")):
        about = json.loads(path.read_text(encoding="utf-8"))["_about"]
        named = re.search(r"on an? NVIDIA (\S+), SGLang (\S+), FlashInfer ([^\s,]+)", about)
        assert named is not None, f"{path.name} does not say what it was run on: {about}"
        found[named[2], named[3]] = named[1]
    return found


def level(result: Mapping[str, Any]) -> str:
    """How far a pair of releases was tried: on a GPU, its flow on the CPU, or only its names; or that it cannot be used."""
    if result["missing"]:
        return "plain SGLang"
    if result["second_start_profiles"] != 0:
        return "names checked"
    gpu = ran_on_gpu().get((result["sglang"], result["flashinfer"]))
    return f"run on a GPU ({gpu})" if gpu else "flow run on CPU"


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """The table in Markdown, one line a pair, without markers."""
    lines = ["| SGLang | FlashInfer | Tried | Prefill sizes | FlashInfer's MoE keys |", "|---|---|---|---|---|"]
    for result in results:
        flashinfer = result["flashinfer"] + ("" if result["pinned"] else " (newer than pinned)")
        prefill = "own pass" if result["prefill_pass"] else "in the decode pass"
        columns = (result["sglang"], flashinfer, level(result), prefill, _KEYS[result["moe_key"]])
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def between_markers(text: str) -> str | None:
    """What a page has between the markers, or ``None`` where it has none."""
    if BEGIN not in text:
        return None
    return text.partition(BEGIN)[2].partition(END)[0].strip()
