"""The tree attacker: gradient-boosted trees, which find what thresholds tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from videoveil.attacks.base import Attacker, Predict
from videoveil.attacks.inputs import whitened
from videoveil.attacks.targets import Data


@dataclass(frozen=True)
class TreeAttacker(Attacker):
    """scikit-learn's histogram gradient boosting on the first principal directions of the standardised features.

    A tree looks at one input at a time; what features tell is spread over channels, and principal directions gather it
    (and make the attacker fast). Boosting ends when the validation loss stops falling, if there is validation data.
    """

    kind: str = "trees"
    directions: int = 64
    rounds: int = 100
    rate: float = 0.1
    leaves: int = 15
    patience: int = 10

    def train(
        self, data: Data, validation: Data | None, seed: int, device: str
    ) -> tuple[Predict, dict[str, Any]]:
        scaling = whitened(data.x, self.directions)
        x, held_out = scaling(data.x), None if validation is None else scaling(validation.x)
        if data.classes is not None:
            model = self._boost(
                x, data.codes, held_out, None if validation is None else validation.codes, seed
            )
            columns = np.arange(data.columns)
            return lambda new: _columns(model, scaling(new), columns), {"rounds": [model.n_iter_]}
        models = []
        for i in range(data.columns):
            y = data.y[:, i]
            y_held_out = None if validation is None else validation.y[:, i]
            models.append(self._attribute(x, y, held_out, y_held_out, seed))

        def predict(new: np.ndarray) -> np.ndarray:
            inputs = scaling(new)
            return np.stack([_positive(model, inputs) for model in models], 1)

        return predict, {"rounds": [0 if isinstance(m, float) else m.n_iter_ for m in models]}

    def _attribute(
        self, x: np.ndarray, y: np.ndarray, x_val: np.ndarray | None, y_val: np.ndarray | None, seed: int
    ) -> Any:
        """A model of one attribute, or its constant value where the training rows know only one."""
        known = ~np.isnan(y)
        if len(np.unique(y[known])) < 2:
            return float(y[known][0])
        if x_val is not None and y_val is not None:
            there = ~np.isnan(y_val)
            x_val, y_val = (x_val[there], y_val[there]) if there.any() else (None, None)
        return self._boost(x[known], y[known], x_val, y_val, seed)

    def _boost(
        self, x: np.ndarray, y: np.ndarray, x_val: np.ndarray | None, y_val: np.ndarray | None, seed: int
    ) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        if y_val is not None and x_val is not None:
            seen = np.isin(y_val, np.unique(y))  # a class without training rows cannot be judged
            x_val, y_val = (x_val[seen], y_val[seen]) if seen.any() else (None, None)
        model = HistGradientBoostingClassifier(
            max_iter=self.rounds,
            learning_rate=self.rate,
            max_leaf_nodes=self.leaves,
            early_stopping=y_val is not None,
            n_iter_no_change=self.patience,
            random_state=seed,
        )
        return model.fit(x, y) if y_val is None else model.fit(x, y, X_val=x_val, y_val=y_val)


def _positive(model: Any, x: np.ndarray) -> np.ndarray:
    if isinstance(model, float):
        return np.full(len(x), model)
    found: np.ndarray = model.predict_proba(x)[:, 1]
    return found


def _columns(model: Any, x: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Probabilities of all classes in their order."""
    found = np.zeros((len(x), len(columns)))
    found[:, model.classes_.astype(int)] = model.predict_proba(x)
    return found
