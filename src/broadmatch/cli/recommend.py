"""`broadmatch recommend`: bid phrases for pages, labels for the rows of a matrix."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.common import check_features, check_not_addresses, check_ranks, load_model
from broadmatch.cli.phrases import Format, Wording, chosen_format, print_answers, write_answers

if TYPE_CHECKING:
    from broadmatch.io import PageSource
    from broadmatch.labels import Recommendation, Recommender
    from broadmatch.labels.predictor import LabelPredictor

_BATCH = 1024


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model.")],
    pages: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PAGES...", help="HTML files, a folder, a pages file; - (the default); or a matrix."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Phrases for each page.", show_default="10, or a set")] = None,
    revealed: options.Revealed = None,
    revealed_columns: options.RevealedColumns = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="If not given: by the name of --out, or a table.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write there: .html, .xlsx, .csv, .jsonl or .txt.")
    ] = None,
    page_columns: options.PageColumns = None,
    labels_path: options.LabelsFile = None,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines; short for --format jsonl.")] = False,
) -> None:
    """Recommend bid phrases for landing pages.

    Phrases come best first, with their scores. Phrases that a page is known to have (--revealed) are not recommended
    again, and a model trained with --model swiftxml looks for what goes with them. A model that was trained on a matrix
    recommends labels for the rows of a matrix: a data set, or features alone (.npz). One that was trained with --sets
    or --hierarchy, and adaboost-lc, answer with sets, which may be empty, unless -k asks for the k best.

    \b
    Example:
      broadmatch recommend model/ landing.html
      curl -s https://example.com/ | broadmatch recommend model/ -k 20 --json
      broadmatch recommend model/ pages/ --out phrases.html
      broadmatch recommend warm/ pages.parquet --revealed bids.csv --out phrases.csv
      broadmatch recommend eurlex/ Eurlex/test.txt.gz -k 5 --out labels.jsonl
    """
    columns = options.parse_columns(page_columns, "--page-columns")
    known = options.parse_revealed(revealed, revealed_columns)
    check_not_addresses(pages or ())
    chosen = chosen_format(out, "jsonl" if json else format)
    from broadmatch.io import PageSource, Rejects
    from broadmatch.io.files import replacing_file
    from broadmatch.labels import Recommender

    own = None if rejects is None and max_bad_rows is None else Rejects(rejects, max_bad_rows=max_bad_rows)
    with own or contextlib.nullcontext():
        # The model is loaded first: standard input is not read for a model that is not there.
        vectorizer, found = load_model(model)
        as_sets = found.sized and k is None
        if as_sets and known is not None:
            raise typer.BadParameter("this model answers with sets, which take no --revealed; -k asks for the k best.")
        if not as_sets:
            check_ranks(found, model, "leave out -k")
        best = None if as_sets else 10 if k is None else k
        if vectorizer is not None:
            if labels_path is not None:
                raise typer.BadParameter("--labels-file is for a model of a matrix; this one takes pages.")
            words = Wording("page", "phrase", "phrases", as_sets)
            source = PageSource(pages or "-", columns=columns, rejects=own)
            answers = _for_pages(Recommender(vectorizer, found), source, best, known)
        else:
            words = Wording("point", "label", "labels", as_sets)
            answers = _for_rows(found, pages or [], labels_path, best, known)
        if out is None:
            print_answers(answers, chosen, words)
            return
        with replacing_file(out) as file:
            n = write_answers(answers, chosen, words, file)
    output.log.info("%s for %s are in %s.", words.many.capitalize(), words.points(n), out)


def _for_pages(
    recommender: "Recommender", pages: "PageSource", k: int | None, known: options.RevealedFile | None
) -> "Iterator[Recommendation]":
    """The phrases of each page, as a stream."""
    if known is None:
        yield from recommender.recommend(pages, k)
        return
    from broadmatch.labels.revealed import check_met, read_revealed

    revealed = read_revealed(known.path, recommender.model.label_names_, columns=known.columns)
    met = set()
    for one in recommender.recommend(pages, k, revealed=revealed):
        if one.name in revealed:
            met.add(one.name)
        yield one
    check_met(revealed, met, known.path)


def _for_rows(
    model: "LabelPredictor",
    places: list[Path],
    labels_path: Path | None,
    k: int | None,
    known: options.RevealedFile | None,
) -> "Iterator[Recommendation]":
    """The labels of each row, as a stream."""
    import numpy as np

    from broadmatch.io import read_features
    from broadmatch.labels.recommender import recommendations
    from broadmatch.labels.revealed import read_revealed_rows
    from broadmatch.parallel import blocks

    if len(places) != 1 or places == [Path("-")]:
        raise typer.BadParameter("this model was trained on a matrix: give one data set, or matrix of features, of it.")
    (place,) = places
    rows = read_features(place, labels_path=labels_path)
    check_features(model, rows.features, place)
    n, names, revealed = rows.X.n_rows, rows.points, None
    if known is not None:
        labels = model.label_names_
        revealed = read_revealed_rows(known.path, labels, n, points=names, columns=known.columns)
    for start, stop in blocks(n, _BATCH if k is not None or model.pointwise else max(1, n)):
        block = np.arange(start, stop)
        X, shown = rows.X.take(block), None if revealed is None else revealed.take(block)
        best = model.predict_sets(X) if k is None else model.predict_topk(X, k, revealed=shown)
        yield from recommendations([str(i) if names is None else names[i] for i in range(start, stop)], best)
