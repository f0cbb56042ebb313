"""`broadmatch recommend`: bid phrases for pages, labels for the rows of a matrix."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options
from broadmatch.cli.cluster.nodes import joined
from broadmatch.cli.common import check_not_addresses, check_ranks, known_features, load_recommender
from broadmatch.cli.phrases.answers import Format, Out, Wording, chosen_format, emit

if TYPE_CHECKING:
    from broadmatch.io import PageSource
    from broadmatch.labels import KEX, Recommendation, Recommender
    from broadmatch.labels.predictor import LabelPredictor

_BATCH = 1024
_CLUSTER_BATCH = 1 << 20
_SEEDS = 100
"""Phrases that are expanded, at least."""


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model.")],
    pages: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PAGES...", help="HTML files, a folder, a pages file; - (the default); or a matrix."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Phrases for each page.", show_default="10, or a set")] = None,
    revealed: options.Revealed = None,
    revealed_columns: options.RevealedColumns = None,
    beside: Annotated[
        Path | None, typer.Option("--with", metavar="KEX", help="Phrases of the page itself too: a model of `kex`.")
    ] = None,
    expansion: Annotated[
        Path | None, typer.Option("--expand", metavar="KSP", help="Expand the phrases: a model of `ksp`.")
    ] = None,
    format: Annotated[Format | None, typer.Option("--format", help="If not given: by --out, or a table.")] = None,
    out: Out = None,
    page_columns: options.PageColumns = None,
    labels_path: options.LabelsFile = None,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    cluster: options.Cluster = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines; short for --format jsonl.")] = False,
) -> None:
    """Recommend bid phrases for landing pages.

    Phrases come best first, with their scores. Phrases that a page is known to have (--revealed) are not recommended
    again, and a model trained with --model swiftxml looks for what goes with them. A model that was trained on a matrix
    recommends labels for the rows of a matrix: a data set, or features alone (.npz). One that was trained with --sets
    or --hierarchy, and adaboost-lc, answer with sets, which may be empty, unless -k asks for the k best.
    --with adds phrases that stand on the page, --expand those that go with the phrases found (see `expand`).

    \b
    Example:
      broadmatch recommend model/ landing.html
      curl -s https://example.com/ | broadmatch recommend model/ -k 20 --json
      broadmatch recommend model/ pages/ --out phrases.html
      broadmatch recommend warm/ pages.parquet --revealed bids.csv --out phrases.csv
      broadmatch recommend model/ landing.html --with kex/ --expand ksp/
    """
    columns = options.parse_columns(page_columns, "--page-columns")
    known = options.parse_revealed(revealed, revealed_columns)
    check_not_addresses(pages or ())
    chosen = chosen_format(out, "jsonl" if json else format)
    if known is not None and (beside or expansion):
        raise typer.BadParameter("--revealed does not go with --with or --expand, which know nothing of single pages.")
    if cluster is not None and (beside or expansion):
        raise typer.BadParameter("--cluster does not go with --with or --expand, which one machine puts together.")
    from broadmatch.io import PageSource, Rejects
    from broadmatch.labels import KEX
    from broadmatch.labels.predictor import LabelPredictor

    own = None if rejects is None and max_bad_rows is None else Rejects(rejects, max_bad_rows=max_bad_rows)
    with own or contextlib.nullcontext(), joined(cluster, model) as nodes:
        # The model is loaded first: standard input is not read for a model that is not there.
        found = load_recommender(model)
        if isinstance(found, LabelPredictor):
            if beside or expansion:
                raise typer.BadParameter("--with and --expand are for pages; this model was trained on a matrix.")
            best = _depth(found, model, k, known)
            words = Wording("point", "label", "labels", best is None)
            ranks: Any = found if nodes is None else nodes.model(model, found)
            rows = _BATCH if nodes is None else _CLUSTER_BATCH
            emit(_for_rows(ranks, pages or [], labels_path, best, known, rows), chosen, words, out)
            return
        if labels_path is not None:
            raise typer.BadParameter("--labels-file is for a model of a matrix; this one takes pages.")
        source = PageSource(pages or "-", columns=columns, rejects=own)
        if beside or expansion:
            best = 10 if k is None else k
            answers = _combined(found, source, best, beside, expansion)
        else:
            best = (10 if k is None else k) if isinstance(found, KEX) else _depth(found.model, model, k, known)
            answers = _for_pages(found, source, best, known, None if nodes is None else nodes.recommender(model, found))
        emit(answers, chosen, Wording("page", "phrase", "phrases", best is None), out)


def _depth(found: "LabelPredictor", place: Path, k: int | None, known: options.RevealedFile | None) -> int | None:
    """How many labels are asked for; None is the set."""
    if found.sized and k is None:
        if known is not None:
            raise typer.BadParameter("this model answers with sets, which take no --revealed; -k asks for the k best.")
        return None
    check_ranks(found, place, "leave out -k")
    return 10 if k is None else k


def _combined(
    recommender: "Recommender | KEX", pages: "PageSource", k: int, beside: Path | None, expansion: Path | None
) -> "Iterator[Recommendation]":
    """The phrases of each page by several models, expanded if asked for."""
    import broadmatch
    from broadmatch.ads import KSP
    from broadmatch.labels import KEX, recommend_together

    models = [recommender, *([] if beside is None else [broadmatch.load(beside, KEX)])]
    if expansion is None:
        return recommend_together(models, pages, k)
    ksp: KSP = broadmatch.load(expansion, KSP)
    return ksp.expand_answers(recommend_together(models, pages, max(k, _SEEDS)), k)


def _for_pages(
    recommender: "Recommender | KEX",
    pages: "PageSource",
    k: int | None,
    known: options.RevealedFile | None,
    spread: Any = None,
) -> "Iterator[Recommendation]":
    """The phrases of each page, as a stream; `spread` is the recommender where a cluster answers for it."""
    answering: Any = recommender if spread is None else spread
    if known is None:
        yield from answering.recommend(pages, k)
        return
    from broadmatch.labels import KEX
    from broadmatch.labels.revealed import check_met, read_revealed

    if isinstance(recommender, KEX):
        raise typer.BadParameter("kex looks at the page alone; leave --revealed out.")
    model = recommender.model
    revealed = read_revealed(known.path, model.label_names_, columns=known.columns, describe=model.describe)
    met = set()
    for one in answering.recommend(pages, k, revealed=revealed):
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
    batch: int,
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
    matrix = known_features(model, rows.X, rows.features, place, labels_path)
    n, names, revealed = matrix.n_rows, rows.points, None
    if known is not None:
        labels = model.label_names_
        revealed = read_revealed_rows(known.path, labels, n, points=names, columns=known.columns)
    for start, stop in blocks(n, batch if k is not None or model.pointwise else max(1, n)):
        block = np.arange(start, stop)
        X, shown = matrix.take(block), None if revealed is None else revealed.take(block)
        best = model.predict_sets(X) if k is None else model.predict_topk(X, k, revealed=shown)
        yield from recommendations([str(i) if names is None else names[i] for i in range(start, stop)], best)
