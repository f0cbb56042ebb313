"""Many models in one pass: parameters and feature sets compared at the price of little more than one model."""

import math

from broadmatch.clicks.serving import ServingModel, not_zero
from broadmatch.clicks.variants.variant_models import VariantModels


class ManyModels(VariantModels):
    """Variants of a click model that share keys, counts and the reading of the stream (§4.3 of the paper).

    Each variant has coefficients of its own and learns exactly as it would alone, with rates from the counts that all
    share (§4.5) or from gradients of its own; the coefficient of a feature that it does not use stays 0. With
    `inclusion`, they share which features are taken in, too. `encoding`, `inclusion` and `seed` are those of `FTRL`.

    >>> from broadmatch.clicks import Variant
    >>> from broadmatch.data import Impressions
    >>> stream = Impressions.from_rows([[7, 8], [8]] * 50, fields=[[0, 1], [1]] * 50, clicked=[1, 0] * 50)
    >>> models = ManyModels({"all": Variant(alpha=0.5), "slow": Variant(), "without 0": Variant(fields=[1])})
    >>> progressive = models.learn_many(stream)
    >>> progressive.shape, models.names
    ((100, 3), ('all', 'slow', 'without 0'))
    >>> models.predict_many(stream.row(0)).round(2).tolist()
    [[0.93, 0.8, 0.5]]
    """

    kind = "many_models"
    single = False

    def variant(self, name: str, *, uncertainty: bool = True) -> ServingModel:
        """One variant as it serves, with what it needs to tell its uncertainty."""
        chosen, found = self.named[name], self.coefficients(name)
        kept = found if uncertainty else not_zero(found)
        return ServingModel.of(len(kept[0]), [kept], chosen.alpha / chosen.beta if chosen.beta else math.inf)
