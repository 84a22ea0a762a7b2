"""What the released sources look like, read without executing them: names and signatures that ``hosts/`` relies on."""

from __future__ import annotations

import ast
from pathlib import Path

FUNCTIONS = {
    "srt/model_executor/runner/flashinfer_autotune.py": {
        "flashinfer_autotune_context": {"model_runner"},
        "flashinfer_autotune_cache_path": {"model_runner"},
        "should_run_flashinfer_autotune": {"model_runner"},
        "run_flashinfer_autotune_forward": {"model_runner", "forward_fn"},
    },
    "srt/plugins/__init__.py": {"load_plugins": set()},
    "srt/distributed/parallel_state.py": {"get_tp_group": set()},
    "srt/entrypoints/engine.py": {"_wait_for_scheduler_ready": {"scheduler_pipe_readers"}},
    "srt/managers/scheduler.py": {"run_scheduler_process": {"server_args", "tp_rank", "pp_rank", "dp_rank"}},
}
CLASSES = {
    "srt/plugins/hook_registry.py": {"HookRegistry": {"register", "apply_hooks"}, "HookType": {"AROUND", "AFTER"}},
    "srt/distributed/parallel_state.py": {"GroupCoordinator": {"world_size", "rank_in_group", "ranks", "cpu_group"}},
    "srt/layers/moe/topk.py": {"StandardTopKOutput": {"topk_weights", "topk_ids", "router_logits"}},
    "srt/layers/moe/fused_moe_triton/layer.py": {"FusedMoE": {"num_experts", "reduce_results"}},
    "srt/layers/linear.py": {"LinearBase": set()},
    "srt/server_args.py": {"ServerArgs": set()},
}
RANKS = {"tp_rank", "ep_rank", "cluster_rank"}


def lacks(package: Path) -> list[str]:
    """What the SGLang package at ``package`` lacks of :data:`FUNCTIONS` and :data:`CLASSES`; empty when it fits."""
    missing = []
    for file, functions in FUNCTIONS.items():
        found = {node.name: node for node in _tree(package / file).body if isinstance(node, ast.FunctionDef)}
        for name, parameters in functions.items():
            if name not in found:
                missing.append(f"{file}: {name}")
                continue
            given = found[name].args
            has = {arg.arg for arg in [*given.posonlyargs, *given.args, *given.kwonlyargs]}
            missing += [f"{file}: {name}({parameter})" for parameter in sorted(parameters - has)]
    for file, classes in CLASSES.items():
        found_classes = {node.name: node for node in _tree(package / file).body if isinstance(node, ast.ClassDef)}
        for name, members in classes.items():
            if name not in found_classes:
                missing.append(f"{file}: class {name}")
                continue
            missing += [f"{file}: {name}.{m}" for m in sorted(members - _members(found_classes[name]))]
    return missing


def has_prefill_pass(package: Path) -> bool:
    """Whether the release can tune at prefill sizes in a pass of its own."""
    tree = _tree(package / "srt/model_executor/runner/flashinfer_autotune.py")
    return any(
        isinstance(node, ast.FunctionDef) and node.name == "maybe_flashinfer_autotune_extend" for node in tree.body
    )


def callers_of_cache_path(package: Path) -> list[str]:
    """Functions of the autotune file that ask for the cache path: redirecting it is enough while there is only one."""
    tree = _tree(package / "srt/model_executor/runner/flashinfer_autotune.py")
    return [
        function.name
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(n, ast.Name) and n.id == "flashinfer_autotune_cache_path" for n in ast.walk(function))
    ]


def moe_key(package: Path) -> str:
    """What a CUTLASS MoE key of the FlashInfer package says beyond shapes: ``shapes``, ``ranks`` (too much) or ``full``."""
    for node in ast.walk(_tree(package / "fused_moe/core.py")):
        if isinstance(node, ast.ClassDef) and node.name == "MoERunner" and "refine_tuning_config" in _members(node):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "get_cache_key_extras":
                    used = {n.attr for n in ast.walk(method) if isinstance(n, ast.Attribute)}
                    return "ranks" if used & RANKS else "full"
            return "shapes"
    raise LookupError(f"no MoERunner with refine_tuning_config in {package / 'fused_moe/core.py'}")


def _members(node: ast.ClassDef) -> set[str]:
    """Methods, class attributes and everything that a method sets on ``self``."""
    names = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef):
            names.add(inner.name)
        elif isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
            names.add(inner.attr)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            names.add(inner.id)
        elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            names.add(inner.target.id)
    return names


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
