"""Each pair of releases is tried once; its tests look at what came out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support import shape
from support.group import Nest, Start
from support.releases import Pair, flashinfer_sources, sglang_sources

RUNNERS: dict[str, dict[str, Any]] = {
    "shapes": {"env": {"TUNELAUNCH_CPU_HOST_KEYS": "weak"}},
    "ranks": {"keys": "ranks"},
    "full": {},
}


@dataclass(frozen=True)
class Tried:
    """A pair after two starts of two ranks, and how its sources look."""

    pair: Pair
    missing: list[str]
    moe_key: str
    prefill_pass: bool
    cache_path_callers: list[str]
    cold: Start
    warm: Start

    def result(self) -> dict[str, Any]:
        """The line of the matrix."""
        return {
            "sglang": self.pair.sglang,
            "flashinfer": self.pair.flashinfer,
            "pinned": self.pair.pinned,
            "missing": self.missing,
            "moe_key": self.moe_key,
            "prefill_pass": self.prefill_pass,
            "second_start_profiles": sum(self.warm.profiles()),
        }


@pytest.fixture(scope="session")
def tried(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Pair], Tried]]:
    """The outcome of a pair, tried on first use."""
    done: dict[Pair, Tried] = {}
    cache = request.config.cache.mkdir("releases")

    def get(pair: Pair) -> Tried:
        if pair not in done:
            done[pair] = _try(pair, cache, tmp_path_factory.mktemp("pair"))
        return done[pair]

    yield get


def _try(pair: Pair, cache: Path, directory: Path) -> Tried:
    sglang, flashinfer = sglang_sources(pair.sglang, cache), flashinfer_sources(pair.flashinfer, cache)
    package, key = sglang / "sglang", shape.moe_key(flashinfer / "flashinfer")
    env = {"TUNELAUNCH_TEST_SGLANG": str(sglang), "TUNELAUNCH_TEST_SGLANG_VERSION": pair.sglang}
    nest = Nest("support.released", path=[flashinfer], env=env)
    try:
        cold = nest.start(directory, name="cold", passes=[8, 8], **RUNNERS[key])
        warm = nest.start(directory, name="warm", passes=[8, 8], **RUNNERS[key])
    finally:
        nest.close()
    return Tried(
        pair=pair,
        missing=shape.lacks(package),
        moe_key=key,
        prefill_pass=shape.has_prefill_pass(package),
        cache_path_callers=shape.callers_of_cache_path(package),
        cold=cold,
        warm=warm,
    )
