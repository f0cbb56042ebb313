"""The single-value structure: large sets of variants for one bit of memory each."""

from typing import Annotated

from broadmatch.clicks.variants.variant_models import VariantModels
from broadmatch.errors import BadParameter
from broadmatch.params import Flag


class SingleValue(VariantModels):
    """Variants that differ only in the signals they use, with one coefficient a feature for all (§4.4 of the paper).

    Each variant predicts with the features that it includes, and wants a new value of each; the mean of what they want
    is kept. With OGD the value is the coefficient w itself. With FTRL it is z, not w: updates add to z, and w with its
    exact zeros follows from it, whereas a mean of coefficients would hardly ever be 0 and no z would belong to it.

    Without a signal whose coefficients are high or low on the whole, a variant would be off by that everywhere; trained
    alone, its other features would make up for it. So each variant has an intercept of its own, which learns from
    what its error has beyond the mean error of all variants; `intercepts=False` is the paper's structure without that.
    Losses are a little off, their order hardly is: it is for comparing variants. Train the one to serve by itself.

    >>> from broadmatch.clicks import Variant
    >>> from broadmatch.data import Impressions
    >>> stream = Impressions.from_rows([[7, 8], [8]] * 50, fields=[[0, 1], [1]] * 50, clicked=[1, 0] * 50)
    >>> models = SingleValue({"all": Variant(), "without 0": Variant(fields=[1])})
    >>> models.learn_many(stream).shape
    (100, 2)
    """

    kind = "single_value"
    single = True

    intercepts: Annotated[bool, Flag(), "an intercept for each variant; the paper has none"] = True

    def check_params(self) -> None:
        """Check every parameter; variants may differ in their fields only."""
        super().check_params()
        several = self.named
        if len({(v.learner, v.alpha, v.beta, v.l1, v.l2, v.rates, v.power) for v in several.values()}) > 1:
            raise BadParameter("Variants that share a single value may differ in their fields only; use ManyModels.")
        first = next(iter(several.values()))
        if first.rates != "counts":
            raise BadParameter("A single value has rates='counts', which are alike for all; use ManyModels for others.")
        if first.learner not in ("ftrl", "ogd"):
            raise BadParameter("A single value can be learned by 'ftrl' or 'ogd' only; use ManyModels for the others.")

    def _start(self) -> None:
        super()._start()
        self._variants = self._variants._replace(intercepts=bool(self.intercepts))
