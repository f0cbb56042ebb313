"""Small parts of the page: paragraphs, tables, changes in percent, verdicts."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any


def prose(text: str, bullet: str = "") -> str:
    """A paragraph, or an item of a list, in lines as the other pages have them."""
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", "\0"), " ".join(text.split()))  # code is not broken
    lines = textwrap.wrap(whole, 118 - len(bullet), break_long_words=False, break_on_hyphens=False)
    return bullet + f"\n{' ' * len(bullet)}".join(lines).replace("\0", " ")


def bullets(items: Iterable[str]) -> str:
    """A list."""
    return "\n".join(prose(item, "- ") for item in items)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are figures."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|--:" * (len(header) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def change(row: dict[str, Any], metric: str = "AucLoss", digits: int = 2) -> str:
    """The relative change with its interval; the baseline has none."""
    middle, low, high = row[metric]["change"]
    if middle == low == high == 0:
        return "baseline"
    return f"{percent(middle, digits)} [{signed(low, digits)}, {signed(high, digits)}]"


def percent(value: float, digits: int = 2) -> str:
    """A signed percentage."""
    return f"{signed(value, digits)} %"


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign, and a true minus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def saved(part: float, whole: float) -> str:
    """How much less `part` is than `whole`."""
    return f"{100 * (1 - part / whole):.0f} %".replace("-", "−")


def listed(values: Iterable[float]) -> str:
    """Numbers as a list."""
    return ", ".join(f"{value:g}" for value in values)


def relative(row: dict[str, Any], metric: str = "AucLoss") -> float:
    """The relative change in percent."""
    return float(row[metric]["change"][0])


def surely_worse(row: dict[str, Any], metric: str = "AucLoss") -> bool:
    """Whether the change is above 0 beyond chance."""
    return bool(row[metric]["change"][1] > 0)


def verdict(same: bool) -> str:
    """Whether the paper's word holds."""
    return "**as in the paper**" if same else "**not as in the paper**"


def met(reached: bool) -> str:
    """Whether a goal was reached."""
    return "met" if reached else "**missed**"
