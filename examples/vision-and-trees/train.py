"""Write the weights and test images of six small models; all random numbers are seeded.

The image and text models have the architectures of the pretrained ones in a small size, with random weights.
The models of tables are trained on synthetic payments, parcels, and customers with structure.
"""

from __future__ import annotations

from pathlib import Path

import joblib
import lightgbm
import numpy as np
import torch
import transformers
import xgboost
from numpy.typing import NDArray
from PIL import Image
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

HERE = Path(__file__).parent
SHAPES = {0: "circle", 1: "square", 2: "stripes"}
TOPICS = {0: "sports", 1: "politics", 2: "weather"}
WORDS = [
    "the",
    "a",
    "goalkeeper",
    "saved",
    "penalty",
    "parliament",
    "votes",
    "on",
    "friday",
    "rain",
    "is",
    "expected",
    "tomorrow",
    "and",
    "team",
    "won",
]
CITIES = ("Oslo", "Paris", "Rome")
SIZE, BEST = 64, 8
LEAST_ACCURACY = 0.85


def weights(model: str) -> Path:
    """Return the folder of a model's weights."""
    folder = HERE / "models" / model / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save_images(folder: Path) -> None:
    """Save three images of other sizes than the models take."""
    random = np.random.default_rng(1)
    for name, size in (("wide.png", (60, 100, 3)), ("tall.png", (120, 50, 3)), ("small.png", (30, 30, 3))):
        low = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(low).resize(size[1::-1], Image.Resampling.BILINEAR).save(folder / name)


def save_resnet() -> None:
    """Save a ResNet and its image processor, as transformers does."""
    torch.manual_seed(0)
    config = transformers.ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 64],
        depths=[1, 2, 1],
        layer_type="bottleneck",
        id2label=SHAPES,
        label2id={label: number for number, label in SHAPES.items()},
    )
    transformers.ResNetForImageClassification(config).eval().save_pretrained(weights("resnet"))
    processor = transformers.ConvNextImageProcessorPil(size={"shortest_edge": SIZE}, crop_pct=0.875)
    processor.save_pretrained(weights("resnet"))
    save_images(weights("resnet"))


class Detector(torch.nn.Module):
    """A detector of the YOLO family without anchors and NMS: a grid of boxes, and the best of them."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        for inner, outer in ((3, 16), (16, 32), (32, 64)):
            layers += [torch.nn.Conv2d(inner, outer, 3, stride=2, padding=1), torch.nn.SiLU()]
        self.backbone = torch.nn.Sequential(*layers)
        self.head = torch.nn.Conv2d(64, 4 + len(SHAPES), 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return boxes (left, top, right, bottom, as shares of the image), scores, and classes."""
        grid = self.head(self.backbone(images))
        cells = grid.shape[-1]
        offsets, sizes, classes = grid.split([2, 2, len(SHAPES)], dim=1)
        steps = torch.arange(cells, dtype=torch.float32)
        corners = torch.stack(torch.meshgrid(steps, steps, indexing="xy"))
        centers = (corners + offsets.sigmoid()) / cells
        halves = sizes.sigmoid() / 2
        boxes = torch.cat((centers - halves, centers + halves), dim=1).flatten(2).transpose(1, 2)
        scores, labels = classes.sigmoid().flatten(2).max(dim=1)
        best, places = scores.topk(BEST, dim=1)
        boxes = boxes.gather(1, places.unsqueeze(-1).expand(-1, -1, 4))
        return boxes, best, labels.gather(1, places)


def make_detector() -> Detector:
    """Return the seeded detector."""
    torch.manual_seed(3)
    return Detector().eval()


def save_detector() -> None:
    """Export the detector to ONNX, with an image processor beside it."""
    folder = weights("detector")
    torch.onnx.export(
        make_detector(),
        (torch.zeros(2, 3, SIZE, SIZE),),
        folder / "detector.onnx",
        input_names=["images"],
        output_names=["boxes", "scores", "classes"],
        dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
        external_data=False,
        opset_version=18,
        dynamo=True,
        verbose=False,
    )
    size = {"height": SIZE, "width": SIZE}
    transformers.ViTImageProcessorPil(size=size).save_pretrained(folder / "processor")
    save_images(folder)


def save_topics() -> None:
    """Save a BERT classifier and its tokenizer, as transformers does."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocabulary = [*special, *dict.fromkeys([*WORDS, *letters]), *(f"##{letter}" for letter in letters), "."]
    tokenizer = transformers.BertTokenizer(vocab={word: number for number, word in enumerate(vocabulary)})
    tokenizer.save_pretrained(weights("topics"))
    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        initializer_range=0.4,
        id2label=TOPICS,
        label2id={label: number for number, label in TOPICS.items()},
    )
    transformers.BertForSequenceClassification(config).save_pretrained(weights("topics"))


def payments() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return amounts, hours, distances, and counts of payments, and which ones are fraud."""
    random = np.random.default_rng(7)
    rows = random.random((4000, 4), dtype=np.float32) * np.float32([2000, 24, 500, 20])
    risk = (rows[:, 0] > 1200).astype(int) + (rows[:, 1] < 5) + (rows[:, 2] > 300)
    return rows, (risk >= 2).astype(np.int64)


def save_fraud() -> float:
    """Train gradient-boosted trees; return the accuracy on payments that were not trained on."""
    rows, fraud = payments()
    model = xgboost.XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1).fit(rows[:3000], fraud[:3000])
    model.get_booster().save_model(weights("fraud") / "fraud.json")
    np.savez(weights("fraud") / "rows.npz", input__0=rows[3000:3032])
    return float((model.predict(rows[3000:]) == fraud[3000:]).mean())


def parcels() -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return distances, weights, hours, and floors of parcels, and the hours until their delivery."""
    random = np.random.default_rng(11)
    rows = random.random((3000, 4), dtype=np.float32) * np.float32([900, 30, 24, 10])
    hours = 4 + rows[:, 0] / 40 + 8 * (rows[:, 2] > 16) + np.where(rows[:, 1] > 20, rows[:, 3] / 2, 0)
    return rows, hours.astype(np.float64) + random.normal(0, 1, len(rows))


def save_delivery() -> float:
    """Train trees of LightGBM; return R² on parcels that were not trained on."""
    rows, hours = parcels()
    settings = {"objective": "regression", "num_threads": 1, "deterministic": True, "verbose": -1}
    model = lightgbm.train(settings, lightgbm.Dataset(rows[:2500], hours[:2500]), num_boost_round=60)
    model.save_model(weights("delivery") / "delivery.txt")
    np.savez(weights("delivery") / "rows.npz", input__0=rows[2500:2532])
    misses = hours[2500:] - np.asarray(model.predict(rows[2500:]))
    return float(1 - misses.var() / hours[2500:].var())


def customers() -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return the age, city, and income of customers, and which ones leave."""
    random = np.random.default_rng(9)
    ages, incomes = random.uniform(18, 90, 2000), random.normal(3000, 900, 2000)
    cities = random.integers(len(CITIES), size=2000)
    points = (ages < 35) + 1.5 * (cities == CITIES.index("Rome")) + (incomes < 2500)
    return np.stack([ages, cities, incomes], axis=1), np.where(points > 1, "leaves", "stays")


def save_churn() -> float:
    """Train a pipeline of numbers and categories; return the accuracy on customers not trained on."""
    rows, leaves = customers()
    columns = [("numbers", StandardScaler(), [0, 2]), ("cities", OneHotEncoder(), [1])]
    pipeline = make_pipeline(ColumnTransformer(columns), LogisticRegression())
    pipeline.fit(rows[:1500], leaves[:1500])
    joblib.dump(pipeline, weights("churn") / "churn.joblib")
    np.savez(weights("churn") / "rows.npz", X=rows[1500:1532].astype(np.float32))
    return float(pipeline.score(rows[1500:], leaves[1500:]))


def main() -> None:
    """Write all weights."""
    torch.set_num_threads(1)  # equal weights on any number of cores; small models train fastest so
    transformers.utils.logging.disable_progress_bar()
    save_resnet()
    save_detector()
    save_topics()
    accuracies = {"fraud": save_fraud(), "delivery": save_delivery(), "churn": save_churn()}
    for name, accuracy in accuracies.items():
        print(f"{name}: {'R²' if name == 'delivery' else 'accuracy'} {accuracy:.3f}")
    if min(accuracies.values()) < LEAST_ACCURACY:
        raise SystemExit(f"an accuracy or R² is below {LEAST_ACCURACY}")


if __name__ == "__main__":
    main()
