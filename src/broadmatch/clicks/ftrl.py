"""FTRL-Proximal: the accuracy of gradient descent and the sparsity of dual averaging."""

from broadmatch.clicks import _record
from broadmatch.clicks.learner import ClickLearner


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
