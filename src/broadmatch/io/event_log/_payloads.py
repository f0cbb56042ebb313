"""Flat JSON objects, one a line, scanned for the values of some keys: no text is copied, nothing is made of a row.

Plain is an object of texts without escapes, numbers, true, false and null, as servers write them; what is anything else
is left to a reader that knows all of JSON.
"""

from broadmatch.kernels import I64, Bytes, kernel

ABSENT, TEXT, WHOLE, DECIMAL, TRUE, FALSE = 0, 1, 2, 3, 4, 5
"""What a value is; null is absent."""
_QUOTE, _ESCAPE, _BLANK, _COMMA, _COLON, _BEGIN, _END = 34, 92, 32, 44, 58, 123, 125
_MINUS, _PLUS, _POINT, _ZERO, _NINE, _E, _SMALL_E = 45, 43, 46, 48, 57, 69, 101
_TRUE, _FALSE, _NULL = 0x74727565, 0x66616C7365, 0x6E756C6C
"""The words as the numbers that their letters make."""


@kernel
def end_of_digits(data: Bytes, at: int, stop: int) -> int:
    """Where digits end; −1 if there is none."""
    start = at
    while at < stop and _ZERO <= data[at] <= _NINE:
        at += 1
    return at if at > start else -1


@kernel
def end_of_text(data: Bytes, at: int, stop: int) -> int:
    """Where the quote is that ends a text, or −1 if something is escaped in it, or it has no end."""
    while at < stop:
        c = data[at]
        if c == _QUOTE:
            return at
        if c == _ESCAPE or c < _BLANK:
            return -1
        at += 1
    return -1


@kernel
def end_of_number(data: Bytes, at: int, stop: int) -> int:
    """Where a number ends, twice, plus 1 if it has a fraction or an exponent; −1 if it is none by JSON's grammar."""
    decimal = 0
    if at < stop and data[at] == _MINUS:
        at += 1
    first = at
    at = end_of_digits(data, at, stop)
    if at < 0 or (data[first] == _ZERO and at > first + 1):
        return -1
    if at < stop and data[at] == _POINT:
        decimal = 1
        at = end_of_digits(data, at + 1, stop)
        if at < 0:
            return -1
    if at < stop and (data[at] == _E or data[at] == _SMALL_E):
        decimal = 1
        at += 1
        if at < stop and (data[at] == _MINUS or data[at] == _PLUS):
            at += 1
        at = end_of_digits(data, at, stop)
        if at < 0:
            return -1
    return 2 * at + decimal


@kernel
def scan_payload(
    data: Bytes, at: int, stop: int, row: int, names: Bytes, name_ptr: I64, begin: I64, size: I64, kind: Bytes
) -> bool:
    """Scan one payload, from `at` to `stop`; whether it is plain. Of a key that stands twice, the last value counts.

    Texts and keys are compared here, written out: passing an array to a function costs more than that.
    """
    n_names = len(name_ptr) - 1
    if at >= stop or data[at] != _BEGIN:
        return False
    at += 1
    if at + 1 == stop and data[at] == _END:
        return True
    while True:
        while at < stop and data[at] == _BLANK:
            at += 1
        if at >= stop or data[at] != _QUOTE:
            return False
        key = at + 1
        end = end_of_text(data, key, stop)
        if end < 0 or end + 2 >= stop or data[end + 1] != _COLON:
            return False
        column = 0
        while column < n_names:
            start, long = name_ptr[column], end - key
            if name_ptr[column + 1] - start == long:
                i = 0
                while i < long and data[key + i] == names[start + i]:
                    i += 1
                if i == long:
                    break
            column += 1
        at = end + 2
        while at < stop and data[at] == _BLANK:
            at += 1
        if at >= stop:
            return False
        first, what, c = at, ABSENT, data[at]
        if c == _QUOTE:
            first = at + 1
            end = end_of_text(data, first, stop)
            if end < 0:
                return False
            what, at = TEXT, end + 1
        elif c == _MINUS or _ZERO <= c <= _NINE:
            number = end_of_number(data, at, stop)
            if number < 0:
                return False
            what, end = WHOLE + number % 2, number // 2
            at = end
        else:
            word, end = 0, at
            while end < stop and end < at + 6 and 97 <= data[end] <= 122:
                word, end = word * 256 + data[end], end + 1
            if word != _TRUE and word != _FALSE and word != _NULL:
                return False
            what = TRUE if word == _TRUE else FALSE if word == _FALSE else ABSENT
            at = end
        if column < n_names:
            begin[column, row], kind[column, row] = first, what
            size[column, row] = end - first if what != ABSENT else 0
        while at < stop and data[at] == _BLANK:
            at += 1
        if at >= stop:
            return False
        if data[at] == _END:
            return bool(at + 1 == stop)
        if data[at] != _COMMA:
            return False
        at += 1


@kernel
def scan_payloads(data: Bytes, ptr: I64, names: Bytes, name_ptr: I64, begin: I64, size: I64, kind: Bytes) -> int:
    """Where the values of keys are in each payload, by key and row, and what they are; gives how many rows are plain.

    It ends at the first that is not. Payloads have a line end each. `kind` is ABSENT everywhere before.
    """
    for row in range(len(ptr) - 1):
        if not scan_payload(data, ptr[row], ptr[row + 1] - 1, row, names, name_ptr, begin, size, kind):
            return row
    return len(ptr) - 1


@kernel
def gather_texts(data: Bytes, begin: I64, ptr: I64, out: Bytes) -> None:
    """Put texts one after the other, each of the length that `ptr` says."""
    for i in range(len(begin)):
        start = begin[i]
        for j in range(ptr[i + 1] - ptr[i]):
            out[ptr[i] + j] = data[start + j]


@kernel
def whole_numbers(data: Bytes, begin: I64, size: I64, kind: Bytes, out: I64) -> None:
    """The whole numbers of up to 18 digits of a column; 0 where there is none."""
    for i in range(len(begin)):
        found, at = 0, begin[i]
        if kind[i] == WHOLE:
            negative = data[at] == _MINUS
            for j in range(at + negative, at + size[i]):
                found = found * 10 + (data[j] - _ZERO)
            if negative:
                found = -found
        out[i] = found
