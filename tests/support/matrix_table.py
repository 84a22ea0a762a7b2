"""The table of supported releases, made from what the release tests found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

BEGIN, END = "<!-- matrix -->", "<!-- /matrix -->"
_KEYS = {
    "shapes": "shapes only; rows are kept apart by scope",
    "ranks": "with ranks; rows are kept as whole sets",
    "full": "full",
}


def level(result: Mapping[str, Any]) -> str:
    """``full``, ``no prefill pass`` or ``plain SGLang``, in that order of what a release allows."""
    if result["missing"] or result["second_start_profiles"] != 0:
        return "plain SGLang"
    return "full" if result["prefill_pass"] else "no prefill pass"


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """The table in Markdown, one line a pair, without markers."""
    lines = ["| SGLang | FlashInfer | Support | FlashInfer's MoE keys |", "|---|---|---|---|"]
    for result in results:
        flashinfer = result["flashinfer"] + ("" if result["pinned"] else " (newer than pinned)")
        lines.append(f"| {result['sglang']} | {flashinfer} | {level(result)} | {_KEYS[result['moe_key']]} |")
    return "\n".join(lines)


def between_markers(text: str) -> str | None:
    """What a page has between the markers, or ``None`` where it has none."""
    if BEGIN not in text:
        return None
    return text.partition(BEGIN)[2].partition(END)[0].strip()
