"""What our defaults cost against tuned settings and rivals: python -m benchmarks.defaults [--run [PART …]]

Writes docs/defaults.md from the rows in benchmarks/defaults/*.jsonl. --run runs the commands of the parts named, or of
all, anew and puts what they print in place of their rows first; each is a benchmark whose --defaults prints such rows.
A row: part, default (in words), chosen_on, data, metric, ours, tuned (its settings or the rival are named by rival),
difference, interval (half of it, or its two ends), command, cpu_s. Figures may be lists, one for each of several cuts.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ROWS = Path(__file__).with_suffix("")
PAGE = ROOT / "docs" / "defaults.md"
Row = dict[str, Any]
ABOUT = ("default", "chosen_on")
HEAD = """# Defaults: what they are, and what they cost

Most users never tune, so a default is chosen as a tuned setting is: on points held out from training, not on a test
part. Here is each default, what it was chosen on, and what the first try costs against settings that were searched for,
and against rivals: how many of the figures below it are better or worse than the other's beyond their 95 % interval of
paired differences on the same test points.

"""
FOOT = """
This page is written by `python -m benchmarks.defaults`; `python -m benchmarks.defaults --run` measures all of it anew,
`--run PART` one part. Differences below are default − other; of losses less is better.
"""


def read_rows(folder: Path = ROWS) -> list[Row]:
    """The rows of all files, by name of the file."""
    return [row for file in sorted(folder.glob("*.jsonl")) for row in rows_of(file)]


def rows_of(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def page(rows: Iterable[Row]) -> str:
    """The page: a table of what each default is, what it was chosen on and what it costs, then the figures of each."""
    parts: dict[str, dict[tuple[str, ...], list[Row]]] = {}
    for row in sorted(rows, key=lambda row: str(row["part"]).lower()):
        parts.setdefault(row["part"], {}).setdefault(tuple(row[name] for name in ABOUT), []).append(row)
    table = ["| of | the default | chosen on | beside others |", "|---|---|---|---|"]
    sections = []
    for part, by_default in parts.items():
        table += [f"| {part} | {default} | {on} | {standing(found)} |" for (default, on), found in by_default.items()]
        sections += [f"\n## {part}\n", *(line for found in by_default.values() for line in section(found))]
    return HEAD + "\n".join(table) + "\n" + FOOT + "\n".join(sections)


def standing(rows: Iterable[Row]) -> str:
    """How many figures are better and worse than others beyond chance, and the one that is worst."""
    n, better, worse = 0, 0, list[tuple[float, str]]()
    for row in rows:
        sign, place = -1 if "loss" in row["metric"] else 1, places_of(row)
        for cut, ours, gain, interval in zip(cuts(row), as_list(row["ours"]), *differences(row), strict=True):
            n += 1
            if not beyond_chance(gain, interval):
                continue
            if sign * gain > 0:
                better += 1
            else:
                worse.append((-abs(gain / (ours or 1.0)), f"{signed(gain, place)} in {cut}, {row['data']}"))
    told = f"{n} figures: {better} better, {len(worse)} worse"
    return f"{told}; most: {min(worse)[1]}" if worse else told


def section(rows: list[Row]) -> Iterator[str]:
    """The figures of one default, and the commands that print them."""
    yield "| data | metric | default | other | of | difference |"
    yield "|---|---|--:|--:|---|--:|"
    for row in rows:
        cells = (row["data"], row["metric"], figures(row["ours"]), figures(row.get("tuned")), row.get("rival", "tuned"),
                 changes(row))  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    yield ""
    for command in dict.fromkeys(row["command"] for row in rows):
        seconds = max((row["cpu_s"] for row in rows if row["command"] == command and row.get("cpu_s")), default=None)
        yield f"- `{command}`" + ("" if seconds is None else f", {seconds:,.0f} s of processor time")
    yield ""


def figures(value: Any) -> str:
    """A figure, or one for each cut: 0.1710, 62.70 / 38.00 / 27.90."""
    if value is None:
        return "–"
    return " / ".join(f"{one:,.{places(one)}f}" for one in as_list(value))


def changes(row: Row) -> str:
    """The difference and its interval: −0.21 ± 0.30, or +0.10 [−0.02, +0.22]; one for each cut."""
    return " / ".join(change(*pair, places_of(row)) for pair in zip(*differences(row), strict=True))


def differences(row: Row) -> tuple[list[float], list[Any]]:
    """The difference of each cut, and its interval: half of it, or its two ends, or None."""
    each, interval = as_list(row["difference"]), row.get("interval")
    of_each = isinstance(interval, list) and isinstance(row["difference"], list)
    return each, interval if of_each and interval is not None else [interval] * len(each)


def cuts(row: Row) -> list[str]:
    """The name of each figure of a row: P@1 / 3 / 5 are P@1, P@3 and P@5."""
    if not isinstance(row["ours"], list):
        return [row["metric"]]
    name, _, numbers = row["metric"].partition("@")
    return [f"{name}@{number}" for number in numbers.split(" / ")]


def beyond_chance(difference: float, interval: float | list[float] | None) -> bool:
    """Whether the interval of a difference leaves out 0."""
    if interval is None:
        return False
    low, high = interval if isinstance(interval, list) else (difference - interval, difference + interval)
    return low * high > 0


def change(difference: float, interval: float | list[float] | None, place: int) -> str:
    if interval is None:
        return signed(difference, place)
    if isinstance(interval, list):
        return f"{signed(difference, place)} [{signed(interval[0], place)}, {signed(interval[1], place)}]"
    return f"{signed(difference, place)} ± {interval:.{place}f}"


def signed(value: float, place: int) -> str:
    return f"{value:+.{place}f}".replace("-", "−")


def places_of(row: Row) -> int:
    """Decimal places of the differences of a row."""
    return 2 if "%" in row["metric"] else max(map(places, as_list(row["ours"])))


def as_list(value: Any) -> list[float]:
    return value if isinstance(value, list) else [value]


def places(value: float) -> int:
    """Decimal places that tell: shares and losses have four, percentages two."""
    return 4 if abs(value) < 1 else 2


def run(parts: list[str], folder: Path = ROWS) -> None:
    """Run the commands of these parts, or of all, and put what they print in place of their rows."""
    for file in sorted(folder.glob("*.jsonl")):
        for command in dict.fromkeys(row["command"] for row in rows_of(file) if not parts or row["part"] in parts):
            found = printed(command)
            kept = [row for row in rows_of(file) if row["command"] != command]
            file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*kept, *found]), "utf-8")


def printed(command: str) -> list[Row]:
    """The rows that a command prints among other lines; one that prints none has failed."""
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    done = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    objects = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [row | {"command": command} for row in objects if "difference" in row and "part" in row]
    if not found:
        sys.exit(f"{command} printed no rows; its --defaults prints objects with part and difference.")
    return found


def main() -> None:
    """Write the page, after measuring if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sorted({row["part"] for row in read_rows()})
    parser.add_argument("--run", nargs="*", metavar="PART", help=f"measure anew: some of {', '.join(known)}, or all")
    parser.add_argument("--small", action="store_true", help="as without it: only --run takes long")
    asked = parser.parse_args()
    if unknown := set(asked.run or ()) - set(known):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if asked.run is not None:
        run(asked.run)
    PAGE.write_text(page(read_rows()), encoding="utf-8")


if __name__ == "__main__":
    main()
