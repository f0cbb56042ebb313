"""What every click model asks of impressions before its kernels touch them."""

import numpy as np

from broadmatch.data import Impressions
from broadmatch.errors import BadInput

_DTYPES = {"indptr": np.int64, "keys": np.uint64, "values": np.float32, "clicked": np.float32, "weight": np.float32}


def check_impressions(impressions: Impressions, *, labelled: bool = False) -> None:
    """Refuse what the kernels cannot take; with `labelled`, also what cannot be learned from."""
    for name, dtype in _DTYPES.items():
        found = getattr(impressions, name).dtype
        if found != dtype:
            raise BadInput(f"The {name} of the impressions must be {np.dtype(dtype)}, not {found}; convert the array.")
    indptr, keys = impressions.indptr, impressions.keys
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(keys) or (indptr[1:] < indptr[:-1]).any():
        raise BadInput("The indptr of the impressions must rise from 0 to the number of keys.")
    if len(keys) and keys.min() == 0:
        raise BadInput("0 is no key of a feature; make keys with broadmatch.signals.")
    if len(impressions.values) not in (0, len(keys)):
        raise BadInput(f"There are {len(keys)} keys but {len(impressions.values)} values; give one each, or none.")
    if not np.isfinite(impressions.values).all():
        raise BadInput("The value of a feature is not a finite number; leave such features out.")
    if labelled:
        _check_labels(impressions)


def _check_labels(impressions: Impressions) -> None:
    n, clicked, weight = impressions.n_rows, impressions.clicked, impressions.weight
    if len(clicked) != n or len(weight) != n:
        raise BadInput(f"{n} impressions need as many labels and weights, not {len(clicked)} and {len(weight)}.")
    if not ((clicked == 0) | (clicked == 1)).all():
        raise BadInput("An impression to learn from must be clicked (1) or not (0); others can only be predicted.")
    if not ((weight >= 0) & np.isfinite(weight)).all():
        raise BadInput("The weight of an impression must be a finite number of at least 0.")
