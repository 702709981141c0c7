"""Check the tensors of a source that a model does not use.

Task heads and buffers are reported. Unused tensors of the model body are rejected.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from model_build.errors import FieldError

HEADS = re.compile(
    r"cls|mlm|nsp|.*lm_head|.*mlm_head|.*_head|heads?|classifier|.*_classifier|score|qa_outputs|"
    r"(.*_)?predictions|vocab_(transform|layer_norm|projector)|pred_layer|lm_loss|logits_proj|logit_scale|"
    r"sequence_summary|proj_out|embed_out|fc_norm_head"
)
"""Module names of task heads, such as those of pretraining."""
DROPPED = re.compile(
    r"(.*\.)?(position_ids|token_type_ids|inv_freq|masked_bias|attn\.bias|num_batches_tracked|"
    r"relative_position_index|relative_coords_table|attn_mask)|(.*\.)?pooler\..*|"
    r"decoder\.(weight|bias)|final_logits_bias"
)
"""Buffers saved by older versions and computed by newer ones, poolers, and vocabulary projections."""
SHOWN = 5


def check_unused(model: Any, unexpected: Iterable[str], *, allowed: Mapping[str, str]) -> tuple[str, ...]:
    """Group the unused tensors; raise FieldError for parts of the model body.

    `allowed` maps name patterns to the reasons why the tensors may be unused.
    """
    unused = sorted(unexpected)
    stale = [pattern for pattern in allowed if not fnmatch.filter(unused, pattern)]
    if stale:
        raise FieldError(
            ("allow_unused_weights", stale[0]),
            f"{stale[0]!r} matches no unused tensor; unused: {shown(unused) or 'none'}",
            remedy="remove or correct it",
        )
    rejected = [
        name
        for name in unused
        if not _is_usually_dropped(name, model)
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed)
    ]
    if rejected:
        pattern = next(iter(_groups(rejected)))
        raise FieldError(
            ("source",),
            "the model that config.json describes does not use these tensors of the source: "
            f"{shown(rejected)}",
            remedy="check that config.json and the weights match; to leave these unused, "
            f"set `allow_unused_weights: {{{pattern!r}: <reason>}}`",
        )
    return tuple(f"{group} ({count})" for group, count in _groups(unused).items())


def _is_usually_dropped(name: str, model: Any) -> bool:
    """Return whether a tensor belongs to a task head or a buffer, and not to the model body."""
    base = getattr(model, "base_model", model)
    inner = name.removeprefix(f"{getattr(model, 'base_model_prefix', '')}.")
    if DROPPED.fullmatch(inner):
        return True
    modules = {*_children(base), *(_children(model) if model is not base else ())}
    top = inner.partition(".")[0]
    return HEADS.fullmatch(top) is not None and top not in modules


def _children(module: Any) -> Collection[str]:
    return [name for name, _ in module.named_children()]


def _groups(names: Iterable[str]) -> dict[str, int]:
    """Count tensors per layer or module, by name pattern."""
    groups: dict[str, list[str]] = {}
    for name in names:
        layer = re.match(r".*?\.\d+(?=\.)", name)
        groups.setdefault(layer[0] if layer else name.rpartition(".")[0], []).append(name)
    return {
        f"{group}.*" if len(members) > 1 and group else members[0]: len(members)
        for group, members in groups.items()
    }


def shown(names: Iterable[str]) -> str:
    """Return the first groups of tensors with their counts, as text."""
    groups = [f"{group} ({count})" for group, count in _groups(names).items()]
    more = f" and {len(groups) - SHOWN} more" if len(groups) > SHOWN else ""
    return ", ".join(groups[:SHOWN]) + more
