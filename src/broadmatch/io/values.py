"""What a number, a flag and a time is, in Arrow columns of any type and in single values; the only definition of each.

What cannot be read is marked, not raised. The columns come as arrays, without a Python object for each row.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.errors import BadInput, BadParameter

Flags = NDArray[np.bool_]

_UNITS = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))
"""Numbers below the size are times in such units: seconds, milliseconds, microseconds; else nanoseconds."""

_TRIED = 8

NO_TIME = int(np.iinfo(np.int64).min)
"""What stands where a time is missing."""
_GROUPED = r"^\s*[+-]?[1-9]\d{0,2}([,.'’\x{a0}\x{202f} ]\d{3})+\s*$"
"""A number with marks between its thousands."""
_DECIMAL_COMMA = r"^\s*[+-]?(\d+|\d{1,3}([.'’\x{a0}\x{202f} ]\d{3})+),\d+\s*$"
DELIMITER = b"delimiter"
"""The key of a table's metadata for what stood between its fields, if that was no comma."""
_ALMOST_ISO = ((r"^(\d{4})/(\d{2})/(\d{2})", r"\1-\2-\3"), (r"\s+UTC$", ""))
"""What logs write where ISO has other signs."""


def numbers(array: Any) -> tuple[NDArray[np.float64], Flags]:
    """A column as numbers (NaN where one is missing), and which rows have something that is not a finite number."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _by_code(array, *numbers(array.dictionary), np.nan)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        found = floats_of(array)
        return found, np.isinf(found)
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(as_text(array))
    filled = pc.if_else(pc.equal(texts, ""), None, texts)
    try:
        found = floats_of(pc.cast(filled, pa.float64()))
    except pa.ArrowInvalid:
        return _each(filled, number_of, np.nan)
    return found, np.isinf(found)


def counts(array: Any) -> tuple[NDArray[np.float64], Flags]:
    """As `numbers`, for whole numbers: thousands may stand apart by commas, dots, apostrophes or blanks, as 1,234.

    >>> counts(pa.array(["7", "1,234", "1.234.567", "0.5"]))[0].tolist()
    [7.0, 1234.0, 1234567.0, 0.5]
    """
    found, bad = numbers(array)
    if not is_text(array.type) or not (bad | (found != np.floor(found)) & ~np.isnan(found)).any():
        return found, bad
    import pyarrow.compute as pc

    grouped = pc.match_substring_regex(array, _GROUPED)
    return numbers(pc.if_else(grouped, pc.replace_substring_regex(array, r"[^\d+-]", ""), array))


def with_points(table: Any, name: str, *, whole: bool = False) -> Any:
    """A column of a table, with decimal points for decimal commas if commas did not stand between its fields.

    What may have commas between its thousands stays as it is where tabs stood there, or where `whole` numbers are
    expected; beside semicolons it is decimal.

    >>> table = pa.table({"price": ["2,36", "1.234,5", "1,234"]}).replace_schema_metadata({DELIMITER: b";"})
    >>> with_points(table, "price").to_pylist(), with_points(table, "price", whole=True).to_pylist()
    (['2.36', '1234.5', '1.234'], ['2.36', '1234.5', '1,234'])
    """
    delimiter, column = (table.schema.metadata or {}).get(DELIMITER), table.column(name)
    return column if delimiter is None else _pointed(column, grouped=whole or delimiter != b";")


def _pointed(column: Any, grouped: bool) -> Any:
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _pointed(column.dictionary, grouped))
    import pyarrow.compute as pc

    if not is_text(column.type) or not pc.any(pc.match_substring(column, ",")).as_py():
        return column
    decimal = pc.match_substring_regex(column, _DECIMAL_COMMA)
    if grouped:
        decimal = pc.and_not(decimal, pc.match_substring_regex(column, _GROUPED))
    plain = pc.replace_substring(pc.replace_substring_regex(column, r"[^\d,+-]", ""), ",", ".")
    return pc.if_else(decimal, plain, column)


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


def times(array: Any, format: str | None = None) -> tuple[NDArray[np.int64], Flags]:
    """A column of times in microseconds since 1970 (`NO_TIME` where one is missing), and which cannot be read.

    Timestamps, dates, ISO texts (UTC unless they say otherwise; also 2024/01/31, and UTC behind the time), and numbers
    of seconds, milli-, micro- or nanoseconds, told apart by their size; or texts in the `format` of strptime.
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
    import pyarrow.compute as pc

    texts = as_text(array)
    some = pc.drop_null(texts.slice(0, _TRIED))
    if pc.any(pc.match_substring_regex(some, "/|UTC")).as_py():
        for written, iso in _ALMOST_ISO:
            some, texts = (pc.replace_substring_regex(part, written, iso) for part in (some, texts))
    for target in (pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            pc.cast(some, target)  # to fail for a whole column takes long
            read = pc.cast(texts, target)
        except pa.ArrowInvalid:
            continue
        if target != pa.int64():
            return _clock(read), np.zeros(len(array), np.bool_)
        if not pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py():  # Arrow takes 0x1f for a number
            return since_1970(read)
    return _each(texts, moment_of, NO_TIME)


def _clock(array: Any) -> NDArray[np.int64]:
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    micros = array.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return with_gaps(micros, NO_TIME)


def since_1970(array: Any) -> tuple[NDArray[np.int64], Flags]:
    """Numbers as times, by the rule of `microseconds`."""
    if pa.types.is_integer(array.type):
        missing, whole = missing_of(array), with_gaps(array, 0).astype(np.int64)
        size = np.abs(whole).astype(np.uint64)  # right also for the least of all
        found = whole // 1000
        for limit, factor in reversed(_UNITS):
            found = np.where(size < np.uint64(limit), whole * factor, found)
        bad = np.zeros(len(whole), np.bool_)
    else:
        known = floats_of(array)
        missing, real = np.isnan(known), np.nan_to_num(known, nan=0.0, posinf=np.inf, neginf=-np.inf)
        size = np.abs(real)
        bad = ~(size < 9e21)
        unit = np.select([size < limit for limit, _ in _UNITS], [factor for _, factor in _UNITS], 1e-3)
        found = np.where(bad, 0.0, real * unit).astype(np.int64)
    return found if missing is None else np.where(missing, NO_TIME, found), bad


def microseconds(moment: str | float | date | datetime) -> int:
    """A moment as microseconds since 1970: ISO text, date, datetime (UTC if it has no offset), or a number as in logs.

    >>> microseconds("2024-01-01") == microseconds(1704067200) == microseconds(1704067200000)
    True
    """
    try:
        if isinstance(moment, int | float):
            factor = next((factor for limit, factor in _UNITS if abs(moment) < limit), None)
            if factor is not None:
                return int(moment * factor)
            return moment // 1000 if isinstance(moment, int) else int(moment * 1e-3)
        when = datetime.fromisoformat(moment if isinstance(moment, str) else moment.isoformat())
    except (ValueError, OverflowError, AttributeError) as error:
        raise BadParameter(f"A time must be ISO text such as '2024-01-31', but it is {moment!r}.") from error
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds


def moment_of(text: str) -> int:
    """A text as a time in microseconds; ValueError if it is none."""
    word = text.strip()
    try:
        number = number_of(word)
    except ValueError:
        for written, iso in _ALMOST_ISO:
            word = re.sub(written, iso, word)
        return microseconds(word)
    return microseconds(int(word) if word.lstrip("+-").isdecimal() else number)


def formatted(text: str, format: str) -> int:
    """A text in a format of strptime as a time in microseconds; ValueError if it is none."""
    return microseconds(datetime.strptime(text.strip(), format))


def as_text(array: Any, kind: Any = None) -> Any:
    """The column as strings of a kind, large ones if none is given."""
    try:
        return cast_to(array, kind or pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise BadInput(f"A column of type {array.type} cannot be read as text: use texts, numbers or flags.") from error


def is_text(kind: Any) -> bool:
    """Whether a type is text in one buffer with offsets."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def texts_of(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of a column of strings, and where each begins and ends in them."""
    _, places, data = array.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
    if len(array) == 0 or places is None:
        return np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    offsets = np.frombuffer(places, width, len(array) + 1, array.offset * width.itemsize).astype(np.int64)
    # Read-only, like every view of Arrow's memory: kernels get one kind of array.
    return np.frombuffer(data if data is not None and data.size else b"\0", np.uint8), offsets


def codes_of(array: Any) -> NDArray[np.int32]:
    """Which distinct value each row has; one past the last where it has none."""
    return with_gaps(cast_to(array.indices, pa.int32()), len(array.dictionary))


def cast_to(array: Any, kind: Any) -> Any:
    """The column in another type; as it is, without a copy, if it has that type."""
    return array if array.type == kind else array.cast(kind)


def compact(array: Any) -> Any:
    """A column that is a small piece of a larger one does without the distinct values of the whole."""
    if pa.types.is_dictionary(array.type) and len(array.dictionary) > len(array):
        return array.dictionary_decode()
    return array


def numpy_of(array: Any) -> NDArray[Any]:
    """The values of a column of numbers or flags as they lie in memory, whatever stands where they are missing.

    Not by Arrow's `to_numpy`: like `pyarrow.array`, it imports pandas where that is installed, and a process that
    predicts a few rows would wait for it.
    """
    kind, n, first = np.dtype(array.type.to_pandas_dtype()), len(array), array.offset
    if n == 0:
        return np.frombuffer(b"", kind)
    if kind == np.bool_:
        return _bits(array.buffers()[1], first, n)
    return np.frombuffer(array.buffers()[1], kind, n, first * kind.itemsize)


def _bits(buffer: Any, first: int, n: int) -> Flags:
    """The n flags from `first` on of a buffer that has a bit for each."""
    held = np.frombuffer(buffer, np.uint8, (first % 8 + n + 7) // 8, first // 8)
    return np.unpackbits(held, count=first % 8 + n, bitorder="little")[first % 8 :].view(np.bool_)


def missing_of(array: Any) -> Flags | None:
    """Which rows have no value; None if all have one."""
    if not array.null_count:
        return None
    valid = array.buffers()[0]
    return np.ones(len(array), np.bool_) if valid is None else ~_bits(valid, array.offset, len(array))


def arrow_of(values: NDArray[Any], missing: Flags | None = None) -> Any:
    """An Arrow column of numbers or flags, without a value where it is `missing`."""
    plain = np.ascontiguousarray(values)
    data = np.packbits(plain, bitorder="little") if plain.dtype == np.bool_ else plain
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(plain.dtype), len(plain), [valid, pa.py_buffer(data)])


def texts_to_arrow(texts: Sequence[str | None]) -> Any:
    """A column of large strings."""
    encoded = [b"" if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    places = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    valid = np.packbits([text is not None for text in texts], bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, places, b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def with_gaps(array: Any, gap: float) -> NDArray[Any]:
    """The values of a column of numbers, `gap` where one is missing; a view of Arrow's memory if none is."""
    missing, found = missing_of(array), numpy_of(array)
    return found if missing is None else np.where(missing, found.dtype.type(gap), found)


def floats_of(array: Any) -> NDArray[np.float64]:
    """A column of numbers or flags as float64, NaN where one is missing."""
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        array = array.cast(pa.float64(), safe=False)
    missing, found = missing_of(array), numpy_of(array).astype(np.float64, copy=False)
    return found if missing is None else np.where(missing, np.nan, found)


def names_to_arrow(names: Names) -> Any:
    """Names as a column of large strings, of the same memory."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(names.offsets)), pa.py_buffer(np.ascontiguousarray(names.text))]
    return pa.Array.from_buffers(pa.large_string(), len(names), buffers)
