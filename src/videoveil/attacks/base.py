"""What every attacker on features is: settings with a `fit`, and what comes out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from videoveil.attacks.metrics import AttributeReport, ClassReport, attribute_report, class_report
from videoveil.attacks.targets import Data, as_features, prepare
from videoveil.attacks.threads import one_thread

Predict = Callable[[np.ndarray], np.ndarray]  # raw features (m, d) float64 → probabilities (m, columns)
Labelled = tuple[Any, Any]  # features and targets


@dataclass(frozen=True)
class FittedAttacker:
    """A trained attacker; `facts` says how it came to be (the epoch chosen, the regularisation…)."""

    kind: str
    width: int
    classes: np.ndarray | None  # labels of the columns of scores, None for attributes
    predict: Predict = field(repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def scores(self, x: Any) -> np.ndarray:
        """Features (m, d) → (m, k) probabilities of attributes, or (m, C) of classes."""
        features = as_features(x, self.width)
        with one_thread(features.size):
            return self.predict(features).astype(np.float64)

    def report(self, x: Any, y: Any) -> AttributeReport | ClassReport:
        """Its scores on test features against the truth (m, k) or (m,), with the chance level."""
        truth = y.detach().cpu().numpy() if hasattr(y, "detach") else y
        truth = np.asarray(truth, dtype=np.float64)
        if self.classes is None:
            return attribute_report(truth, self.scores(x))
        return class_report(truth, self.scores(x), self.classes)


class Attacker(ABC):
    """A kind of attacker with its settings."""

    kind: str

    def fit(
        self, x: Any, y: Any, validation: Labelled | None = None, seed: int = 0, device: str = "cpu"
    ) -> FittedAttacker:
        """Train on features x (n, d) and targets y: attributes (n, k) of 0, 1, NaN, or classes (n,).

        Everything that can be chosen (epoch, strength of regularisation, number of neighbours) is chosen on
        `validation` where there is one, and by a fixed rule where there is none; never on anything else.
        """
        data = prepare(x, y)
        held_out = None if validation is None else prepare(*validation, like=data)
        with one_thread(data.x.size):
            predict, facts = self.train(data, held_out, seed, device)
        return FittedAttacker(self.kind, data.x.shape[1], data.classes, predict, facts)

    @abstractmethod
    def train(
        self, data: Data, validation: Data | None, seed: int, device: str
    ) -> tuple[Predict, dict[str, Any]]:
        """The trained predictor and the facts about it."""
