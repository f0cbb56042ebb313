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
ABOUT = ("default", "chosen_on", "command")
HEAD = """# Defaults: what they are, and what they cost

Most users never tune, so a default is chosen as a tuned setting is: on points held out from training, not on a test
part; what each was chosen on stands beside it. Here is what the first try costs against settings that were searched
for, and against rivals. Differences are default − other, with the 95 % interval of paired differences on the same test
points; of errors and losses less is better.

This page is written by `python -m benchmarks.defaults`; `python -m benchmarks.defaults --run` measures all of it anew,
`--run PART` one part.
"""


def read_rows(folder: Path = ROWS) -> list[Row]:
    """The rows of all files, by name of the file."""
    return [row for file in sorted(folder.glob("*.jsonl")) for row in rows_of(file)]


def rows_of(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def page(rows: Iterable[Row]) -> str:
    """The page: for each default what it is, what it was chosen on, how it is measured, and a table of differences."""
    by_part: dict[str, dict[tuple[str, ...], list[Row]]] = {}
    for row in rows:
        by_part.setdefault(row["part"], {}).setdefault(tuple(row[name] for name in ABOUT), []).append(row)
    sections = [HEAD]
    for part in sorted(by_part, key=str.lower):
        sections.append(f"## {part}\n")
        sections += ["\n".join(section(*about, found)) for about, found in by_part[part].items()]
    return "\n".join(sections)


def section(default: str, chosen_on: str, command: str, rows: list[Row]) -> Iterator[str]:
    """One default."""
    seconds = max((row["cpu_s"] for row in rows if row.get("cpu_s") is not None), default=None)
    took = "" if seconds is None else f", {seconds:,.0f} s of processor time"
    yield f"**{sentence(default)}** Chosen on {sentence(chosen_on)} (`{command}`{took})\n"
    yield "| data | metric | default | other | of | difference |"
    yield "|---|---|--:|--:|---|--:|"
    for row in rows:
        cells = (row["data"], row["metric"], figures(row["ours"]), figures(row.get("tuned")), row.get("rival", "tuned"),
                 changes(row))  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    yield ""


def sentence(text: str) -> str:
    return f"{text.rstrip('. ')}."


def figures(value: Any) -> str:
    """A figure, or one for each cut: 0.1710, 62.70 / 38.00 / 27.90."""
    if value is None:
        return "–"
    return " / ".join(f"{one:,.{places(one)}f}" for one in as_list(value))


def changes(row: Row) -> str:
    """The difference and its interval: −0.21 ± 0.30, or +0.10 [−0.02, +0.22]; one for each cut."""
    each, half = as_list(row["difference"]), row.get("interval")
    intervals = half if isinstance(half, list) and isinstance(row["difference"], list) else [half] * len(each)
    place = 2 if "%" in row["metric"] else max(map(places, as_list(row["ours"])))
    return " / ".join(change(*pair, place) for pair in zip(each, intervals, strict=True))


def change(difference: float, interval: float | list[float] | None, place: int) -> str:
    def signed(value: float) -> str:
        return f"{value:+.{place}f}".replace("-", "−")

    if interval is None:
        return signed(difference)
    if isinstance(interval, list):
        return f"{signed(difference)} [{signed(interval[0])}, {signed(interval[1])}]"
    return f"{signed(difference)} ± {interval:.{place}f}"


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
