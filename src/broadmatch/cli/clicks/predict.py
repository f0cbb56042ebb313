"""`broadmatch clicks predict`: a probability for each row of some files."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.clicks.common import open_model, prepare, source_of
from broadmatch.errors import BadInput
from broadmatch.io.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from broadmatch.clicks import ClickModel
    from broadmatch.clicks.training.predict_files import Predicted


def command(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A click model.")],
    data: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="Files, folders, patterns, or - for standard input.")
    ],
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="A .parquet, .csv or .jsonl file; - is standard output.")
    ] = STANDARD_INPUT,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Also how far one more example could move the log-odds.")
    ] = False,
    model: options.ModelName = None,
    format: options.Format = None,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    """Predict the probability of a click for each row.

    Columns are the number of the row (from 0), its id if the description names one, the probability and, if wanted, the
    uncertainty; if DATA has the label, also clicked, weight, time and slices, for `clicks validate` to measure it. A
    bad row has none, but it counts. From standard input to standard output, each line gives one line with nothing but
    the number, an empty one if it is bad.

    \b
    Example:
      broadmatch clicks predict model/ today.parquet --out probabilities.parquet
      broadmatch clicks predict model/ test.csv --out test.parquet && broadmatch clicks validate test.parquet
      echo '{"ad": 7, "query": "pizza"}' | broadmatch clicks predict model/ - --uncertainty
    """
    prepare()
    from broadmatch.clicks.training.predict_files import NotedRejects, predict_files

    chosen = "jsonl" if json else _format_of(out)
    found = open_model(path)
    read_as = _format(found, format, data)
    with NotedRejects(rejects, max_bad_rows=max_bad_rows) as own:
        predicted = predict_files(
            found, source_of(data), name=model, uncertainty=uncertainty, format=read_as, rejects=own
        )
        if out == STANDARD_INPUT and STANDARD_INPUT in data and not json:
            _print_numbers(predicted, uncertainty)
            return
        n = _write(predicted, out, chosen)
    if out != STANDARD_INPUT:
        output.log.info("%s probabilities are in %s.", f"{n:,}", out)


def _format_of(out: str) -> str:
    if out == STANDARD_INPUT:
        return "csv"
    suffix = Path(out).suffix.lower().removeprefix(".")
    if suffix not in ("parquet", "csv", "jsonl"):
        raise BadInput(f"--out must be a file that ends in .parquet, .csv or .jsonl, or -, but it is {out!r}.")
    return suffix


def _format(model: "ClickModel", format: str | None, data: list[str]) -> str | None:
    """The format of the data: as asked for, or as described; standard input has no Parquet."""
    description = model.description
    if isinstance(description, str):
        if format not in (None, description):
            raise BadInput(f"The model was trained on {description} text; it cannot read {format}.")
        return description
    if format == "vw":
        raise BadInput(f"The model was trained on columns; it cannot read {format} text.")
    described = description.format
    if STANDARD_INPUT in data and described in (None, "parquet"):
        described = "jsonl"
    return format or described


def _print_numbers(predicted: "Iterator[Predicted]", uncertainty: bool) -> None:
    """One line for each line of standard input."""
    done = 0
    for some in predicted:
        spread = some.uncertainty.tolist() if some.uncertainty is not None else []
        shown = [
            f"{p:.6g} {spread[i]:.6g}" if uncertainty else f"{p:.6g}" for i, p in enumerate(some.probability.tolist())
        ]
        lines: list[str] = []
        for row, text in zip(some.row.tolist(), shown, strict=True):
            lines += [""] * (row - done)
            lines.append(text)
            done = row + 1
        if lines:
            typer.echo("\n".join(lines))


@contextlib.contextmanager
def _writing_to(out: str) -> Iterator[Any]:
    from broadmatch.io.files import replacing_file

    if out == STANDARD_INPUT:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with replacing_file(out) as file:
            yield file


def _write(predicted: "Iterator[Predicted]", out: str, format: str) -> int:
    """Write the predictions as they are made; gives their number."""
    n = 0
    write: Callable[[Any], None] | None = None
    with _writing_to(out) as file, contextlib.ExitStack() as stack:
        for some in predicted:
            table = _table(some)
            if write is None:
                write, names = _writer(format, table.schema, file, stack), table.column_names
            write(table.select(names))
            n += table.num_rows
        if write is None:
            raise BadInput("There was no row to predict.")
    return n


def _table(some: "Predicted") -> Any:
    """The columns that are known of some rows."""
    import pyarrow as pa

    from broadmatch.io.values import arrow_of

    columns = {"row": some.row, "probability": some.probability, "uncertainty": some.uncertainty}
    known = {name: arrow_of(column) for name, column in columns.items() if column is not None}
    if some.id is not None:
        known = {"row": known.pop("row"), "id": some.id, **known}
    return pa.table(known | ({} if some.outcome is None else some.outcome.columns(known)))


def _writer(format: str, schema: Any, file: Any, stack: contextlib.ExitStack) -> Callable[[Any], None]:
    """What writes a table in the format that is wanted."""
    import json

    if format == "jsonl":

        def lines(table: Any) -> None:
            text = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in table.to_pylist())
            file.write(text.encode())

        return lines
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    writer: Any
    if format == "parquet":
        writer = pq.ParquetWriter(file, schema)
    else:
        writer = pc.CSVWriter(file, schema, write_options=pc.WriteOptions(quoting_style="needed"))
    stack.enter_context(writer)
    return lambda table: writer.write_table(table.cast(schema))
