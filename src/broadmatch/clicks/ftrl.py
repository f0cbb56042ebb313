"""FTRL-Proximal: the accuracy of gradient descent and the sparsity of dual averaging."""

import math
from typing import Self

import numpy as np

from broadmatch.clicks import _record
from broadmatch.clicks.learner import ClickLearner
from broadmatch.clicks.serving import ServingModel
from broadmatch.errors import BadParameter


class FTRL(ClickLearner):
    """Follow the (proximally) regularised leader, per coordinate, for logistic loss (Algorithm 1 of the paper).

    >>> from broadmatch.data import Impressions
    >>> model = FTRL(alpha=0.5, l1=0.1)
    >>> batch = Impressions.from_rows([[7, 8], [8]], clicked=[1, 0])
    >>> model.learn_many(batch).round(4).tolist()  # before each update: progressive
    [0.5, 0.5333]
    """

    kind = "ftrl"
    number = _record.FTRL

    def continues(self, model: ServingModel) -> bool:
        """Whether `take_over` can begin with a model: its rates are of the same α and β, as those of the unseen say."""
        plain = self.rates == "gradients" and self.encoding != "q2.13"
        return plain and self.beta > 0 and math.isclose(model.unseen, self.alpha / self.beta, rel_tol=1e-6)

    def take_over(self, model: ServingModel) -> Self:
        """Begin with the coefficients and learning rates of a model that serves, before anything is learned.

        Algorithm 1 backwards: √n = α / η − β, and z = −w ((β + √n) / α + λ₂) − sgn(w) λ₁. Of a coefficient of 0, z is
        not known, and taken as 0.

        >>> from broadmatch.data import Impressions
        >>> first = FTRL()
        >>> _ = first.learn_many(Impressions.from_rows([[7, 8], [8]] * 9, clicked=[1, 0] * 9))
        >>> FTRL().take_over(first.to_serving()).predict_one([7]) > 0.5
        True
        """
        self._ready()
        if self.n_features or not self.continues(model):
            raise BadParameter("take_over is for a learner that has learned nothing, with α and β as the model's.")
        keys, weight, rate = model.items()
        root = np.maximum(self.alpha / rate - self.beta, 0.0)
        kept = -weight * ((self.beta + root) / self.alpha + self.l2) - np.sign(weight) * self.l1
        self.table_.reserve(len(keys))
        self.table_.fill(keys, np.stack([kept, root * root], axis=1).astype(self.table_.cells.dtype))
        return self
