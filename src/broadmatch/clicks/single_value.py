"""The single-value structure: large sets of variants for one bit of memory each."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from broadmatch.clicks import _variants as click_variants
from broadmatch.clicks.variants import Variant, VariantModels
from broadmatch.errors import BadParameter
from broadmatch.params import Flag, Rule


class SingleValue(VariantModels):
    """Variants that differ only in the signals they use, with one coefficient a feature for all (§4.4 of the paper).

    Each variant predicts with the features that it includes, and wants a new value of each; the mean of what they want
    is kept. With OGD the value is the coefficient w itself. With FTRL it is z, not w: updates add to z, and w with its
    exact zeros follows from it, whereas a mean of coefficients would hardly ever be 0 and no z would belong to it.

    Without a signal whose coefficients are high or low on the whole, a variant would be off by that everywhere; trained
    alone, its other features would make up for it. So each variant has an intercept of its own, which learns from
    what its error has beyond the mean error of all variants; `intercepts=False` is the paper's structure without that.
    Losses are a little off, their order hardly is: it is for comparing variants. Train the one to serve by itself.

    >>> from broadmatch.data import Impressions
    >>> stream = Impressions.from_rows([[7, 8], [8]] * 50, fields=[[0, 1], [1]] * 50, clicked=[1, 0] * 50)
    >>> models = SingleValue({"all": Variant(), "without 0": Variant(fields=[1])})
    >>> models.learn_many(stream).shape
    (100, 2)
    """

    kind = "single_value"
    single = True
    learning = staticmethod(click_variants.learn_single)

    rules: ClassVar[Mapping[str, Rule]] = {**VariantModels.rules, "intercepts": Flag()}

    def __init__(
        self,
        variants: Mapping[str, Variant] | Iterable[tuple[str, Variant]],
        *,
        intercepts: bool = True,
        **common: Any,
    ) -> None:
        self.intercepts = intercepts
        super().__init__(variants, **common)
        if not (self._settings == self._settings[:, :1]).all() or (self._learners != self._learners[0]).any():
            raise BadParameter("Variants that share a single value may differ in their fields only; use ManyModels.")
        if next(iter(self.variants.values())).learner not in ("ftrl", "ogd"):
            raise BadParameter("A single value can be learned by 'ftrl' or 'ogd' only; use ManyModels for the others.")

    def _update(self) -> tuple[Any, ...]:
        return int(self._learners[0]), *self._settings[:, 0].tolist(), self.intercepts, self._levels
