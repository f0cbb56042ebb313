"""Numbers, flags and times of Arrow columns of any type; what cannot be read is told, not raised."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from broadmatch.errors import BadParameter
from broadmatch.io.arrow import Flags, as_text, codes_of, floats_of, is_text
from broadmatch.io.click_log import microseconds

_UNITS = ((1e11, 10**6), (1e14, 10**3), (1e17, 1))
"""Numbers below the size are times in such units: seconds, milliseconds, microseconds; else nanoseconds."""


def numbers(array: Any) -> tuple[NDArray[np.float64], Flags]:
    """A column as numbers (NaN where one is missing), and which rows have something that is no finite number."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _by_code(array, *numbers(array.dictionary), np.nan)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        found = floats_of(array)
        return found, np.isinf(found)
    texts = pc.utf8_trim_whitespace(as_text(array))
    filled = pc.if_else(pc.equal(texts, ""), None, texts)
    try:
        found = floats_of(pc.cast(filled, pa.float64()))
    except pa.ArrowInvalid:
        return _each(filled, number_of, np.nan)
    return found, np.isinf(found)


def number_of(text: str) -> float:
    """A text as a finite number, or NaN; ValueError if it is none."""
    value = float(text)
    if value in (np.inf, -np.inf) or "_" in text:
        raise ValueError(text)
    return value


def _by_code(array: Any, found: NDArray[Any], bad: Flags, missing: float) -> tuple[NDArray[Any], Flags]:
    """What holds for distinct values, for rows."""
    codes = codes_of(array)
    return np.append(found, found.dtype.type(missing))[codes], np.append(bad, False)[codes]


def _each(texts: Any, read: Callable[[str], float], missing: float) -> tuple[NDArray[Any], Flags]:
    """Read distinct texts one by one; used only where not all of them can be read at once."""
    distinct = texts.dictionary_encode()
    found = np.full(len(distinct.dictionary), missing, np.int64 if isinstance(missing, int) else np.float64)
    bad = np.zeros(len(found), np.bool_)
    for i, text in enumerate(distinct.dictionary.to_pylist()):
        try:
            found[i] = read(text)
        except (ValueError, OverflowError, BadParameter):
            bad[i] = True
    return _by_code(distinct, found, bad, missing)


def flags(array: Any) -> tuple[NDArray[np.float64], Flags]:
    """A column of 0, 1, true and false as numbers, and which rows have anything else."""
    if pa.types.is_dictionary(array.type):
        found, bad = _by_code(array, *flags(array.dictionary), np.nan)
        return found, bad | np.isnan(found)
    found, bad = _each(array, _flag, np.nan) if is_text(array.type) else numbers(array)
    return found, bad | ((found != 0) & (found != 1))


def _flag(text: str) -> float:
    word = text.strip().lower()
    return {"true": 1.0, "false": 0.0}[word] if word in ("true", "false") else number_of(word)


NO_TIME = int(np.iinfo(np.int64).min)
"""What stands where a time is missing."""


def times(array: Any, format: str | None = None) -> tuple[NDArray[np.int64], Flags]:
    """A column of times in microseconds since 1970 (`NO_TIME` where one is missing), and which cannot be read.

    Timestamps, dates, ISO texts (UTC unless they say otherwise), and numbers of seconds, milli-, micro- or nanoseconds,
    told apart by their size; or texts in the `format` of strptime.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _by_code(array, *times(array.dictionary, format), NO_TIME)
    if format is not None:
        return _each(as_text(array), lambda text: formatted(text, format), NO_TIME)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _clock(array), np.zeros(len(array), np.bool_)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return since_1970(array)
    texts = pc.utf8_trim_whitespace(as_text(array))
    for target in (pa.int64(), pa.timestamp("us")):
        try:
            read = pc.cast(texts, target)
        except pa.ArrowInvalid:
            continue
        return since_1970(read) if target == pa.int64() else (_clock(read), np.zeros(len(array), np.bool_))
    return _each(texts, moment_of, NO_TIME)


def _clock(array: Any) -> NDArray[np.int64]:
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    micros = array.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return np.asarray(pc.fill_null(micros, NO_TIME).to_numpy(zero_copy_only=False))


def since_1970(array: Any) -> tuple[NDArray[np.int64], Flags]:
    """Numbers as times, by the rule of `broadmatch.io.click_log.microseconds`."""
    if pa.types.is_integer(array.type):
        whole = np.asarray(pc.fill_null(array.cast(pa.int64(), safe=False), 0).to_numpy(zero_copy_only=False))
        size = np.abs(whole.astype(np.float64))
        found = whole // 1000
        for limit, factor in reversed(_UNITS):
            found = np.where(size < limit, whole * factor, found)
        bad = np.zeros(len(whole), np.bool_)
    else:
        real = np.nan_to_num(floats_of(array), nan=0.0, posinf=np.inf, neginf=-np.inf)
        size = np.abs(real)
        bad = ~(size < 9e21)
        unit = np.select([size < limit for limit, _ in _UNITS], [factor for _, factor in _UNITS], 1e-3)
        found = np.where(bad, 0.0, real * unit).astype(np.int64)
    missing = array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return np.where(missing, NO_TIME, found), bad


def moment_of(text: str) -> int:
    """A text as a time in microseconds; ValueError if it is none."""
    try:
        return microseconds(number_of(text))
    except ValueError as error:
        if isinstance(error, BadParameter):
            raise
        return microseconds(text)


def formatted(text: str, format: str) -> int:
    """A text in a format of strptime as a time in microseconds; ValueError if it is none."""
    return microseconds(datetime.strptime(text.strip(), format))
