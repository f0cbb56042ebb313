"""`broadmatch signals vet`: whether a signal is fit to be used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.clicks.common import open_model, prepare, source_of
from broadmatch.cli.output import Column
from broadmatch.cli.settings import parse_values, rules_of, split_settings
from broadmatch.cli.signals.common import Index, Name, Who, who_is
from broadmatch.errors import BadParameter

if TYPE_CHECKING:
    from broadmatch.registry import VettingReport
    from broadmatch.signals import Description

Learning = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Of the learners: alpha, beta, l1, l2."),
]


def command(
    name: Name,
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Files, folders, patterns, or -.")],
    describe: Annotated[
        Path | None, typer.Option("--description", metavar="TOML", help="What the columns are; that of --prior if not.")
    ] = None,
    signals: Index = None,
    who: Who = None,
    prior: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A fixed model; the signal learns on its residual.")
    ] = None,
    rules: Annotated[Path | None, typer.Option(metavar="TOML", help="Rules; the standard ones if not given.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a page with pictures.")] = None,
    settings: Learning = None,
    format: options.Format = None,
    rejects: options.RejectsFile = None,
    json: options.Json = False,
) -> None:
    """Measure a signal on a log, in one pass, and judge it by rules: coverage, cardinality, drift, leaks, cost, worth.

    With an index, the verdict is recorded there, and a signal that the description does not have is taken from it. Ends
    with 1 if the signal does not pass.

    \b
    Example:
      broadmatch signals vet price 'logs/*.parquet' --description clicks.toml --page price.html
      broadmatch signals vet price@2 logs/ --description clicks.toml --signals signals/
      broadmatch signals vet price logs/ --description clicks.toml --prior model/
    """
    if describe is None and prior is None:
        raise BadParameter("--description must name a description of the columns, unless there is a --prior.")
    prepare()
    from broadmatch.io import Rejects
    from broadmatch.registry.vetting.page import vetting_page
    from broadmatch.registry.vetting.verdict import read_vetting_rules
    from broadmatch.registry.vetting.vet import vet_signal

    judged_by = read_vetting_rules(rules)
    model = None if prior is None else open_model(prior)
    description = _description(describe, None if model is None else model.description)
    description.format = format or description.format
    called, described = name_and_description(name, description, signals)
    with Rejects(rejects) as own:
        report = vet_signal(
            called,
            source_of(data),
            described,
            rules=judged_by,
            prior=model,
            settings=learner_settings(settings),
            rejects=own,
        )
    if page is not None:
        write_text(page, vetting_page(report))
    if signals is not None:
        from broadmatch.registry import SignalIndex

        with SignalIndex.open(signals, make=False) as index:
            index.record_vetting(name, report, by=who_is(who))
    output.print_json(report.to_dict()) if json else _print(name, report)
    if not report.passed:
        raise typer.Exit(1)


def name_and_description(name: str, description: "Description", signals: str | None) -> "tuple[str, Description]":
    """What the signal is called in the description, and the description with it."""
    if signals is None:
        return name, description
    from broadmatch.registry import SignalIndex
    from broadmatch.registry.described import with_versions

    with SignalIndex.open(signals, make=False) as index:
        version = index.get(name)
    return version.described_as, with_versions(description, [version])


def learner_settings(given: list[str] | None) -> dict[str, float]:
    """What --set says."""
    from broadmatch.clicks import FTRL

    rules = {name: rule for name, rule in rules_of(FTRL).items() if name in ("alpha", "beta", "l1", "l2")}
    return parse_values(split_settings(given)[""], rules, "the learners")


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    from broadmatch.io.files import replacing_file

    with replacing_file(path) as out:
        out.write(text.encode("utf-8", "replace"))


def _description(describe: Path | None, of_model: "Description | str | None") -> "Description":
    from broadmatch.signals import Description

    if describe is not None:
        return Description.read(describe)
    if not isinstance(of_model, Description):
        raise BadParameter("--prior was trained on vw text: pass --description.")
    return Description.from_dict(of_model.to_dict())


def _print(name: str, report: "VettingReport") -> None:
    columns = [Column(""), Column("rule"), Column("value", right=True), Column("bound"), Column("", spare="shorten")]
    rows = [
        ("ok" if f.passed else "NO", f.rule, "–" if f.value is None else f"{f.value:.4g}", f.bound, f.text)
        for f in sorted(report.findings, key=lambda one: one.passed)
    ]
    output.print_table(columns, rows)
    verdict = "passed" if report.passed else f"not passed: {', '.join(f.rule for f in report.failed)}"
    output.print_text(f"{name}: {verdict}; {report.figures['Impressions']:,} impressions.")
