"""FTRL-Proximal: the accuracy of gradient descent and the sparsity of dual averaging."""

from broadmatch.clicks import _learners as click_learners
from broadmatch.clicks.learner import ClickLearner


class FTRL(ClickLearner):
    """Follow the (proximally) regularised leader, per coordinate, for logistic loss (Algorithm 1 of the paper).

    `alpha` and `beta` set the learning rates α / (β + √n); `l1` makes coefficients exactly 0, `l2` shrinks them.
    `rates` says what n is: the squared gradients of the feature, its clicked and unclicked impressions ("counts",
    §4.5), or the number of examples, alike for all ("global"). `encoding` is how numbers are held: 8, 4 or, with
    randomised rounding, 2 bytes each ("q2.13", §4.2). `inclusion` keeps rare features out: `Poisson(p)` or
    `Bloom(n)` (§4.1).

    >>> from broadmatch.data import Impressions
    >>> model = FTRL(alpha=0.5, l1=0.1)
    >>> batch = Impressions.from_rows([[7, 8], [8]], clicked=[1, 0])
    >>> model.learn_many(batch).round(4).tolist()  # before each update: progressive
    [0.5, 0.5333]
    """

    kind = "ftrl"
    number = click_learners.FTRL
