"""Tiny timm models with random weights, in the layout of the Hub."""

import json
from pathlib import Path
from typing import Any

from tritonstack.base.paths import find_project


def shared_cache() -> Path:
    """Return a cache that all tests share, with timm in it once."""
    cache = find_project(Path(__file__)).cache_dir / "test-timm"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def save_timm_model(
    folder: Path, architecture: str = "test_resnet", *, classes: int = 3, size: int = 64, **settings: Any
) -> Path:
    """Save a seeded model as timm's `save_for_hf` does; `settings` change its pretrained_cfg."""
    import torch

    from model_build.exporters.timm_models.loading import import_timm

    timm = import_timm(shared_cache())
    torch.manual_seed(7)
    options = {"img_size": size} if "vit" in architecture else {}
    model = timm.create_model(architecture, num_classes=classes, **options)
    for name, buffer in model.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.3, 0.6)  # lets differences between images through
    if classes:
        torch.nn.init.normal_(model.get_classifier().weight, std=0.05)
    timm.models.save_for_hf(model, folder, safe_serialization=True)
    file = folder / "config.json"
    config = json.loads(file.read_text())
    labels = {"label_names": [f"label {place}" for place in range(classes)]} if classes else {}
    config["pretrained_cfg"] |= {"input_size": [3, size, size], "crop_pct": 0.875, **settings}
    file.write_text(json.dumps({**config, **labels}))
    return folder
