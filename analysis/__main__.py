"""Command line of the analysis. Results go to standard output, what is under way to standard error.

Exit status: 0 done; 1 what was checked does not hold; 2 wrong use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from analysis import claim_exports, exports, sweep_exports
from analysis.escaping import printable
from analysis.labels import check_labels
from analysis.report import assert_phase, assert_raw_logs, find_campaign, open_report
from analysis.restore import restore_into
from analysis.sweep import parse_seeds
from runner.errors import BenchbookError, WrongUse

CAMPAIGN = click.argument("campaign", type=click.Path(path_type=Path, file_okay=False))


def shows_errors(command: Callable[..., int | None]) -> Callable[..., None]:
    """Show our own errors as messages, and turn a command's result into the exit status."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            sys.exit(command(*args, **kwargs) or 0)
        except BenchbookError as error:
            click.echo(printable(f"error: {error}"), err=True)  # a terminal obeys what it is sent
            sys.exit(error.exit_code)

    return wrapper


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Raw logs to labels, estimates, claims and pages. CAMPAIGN is the folder of a campaign."""


@main.command()
@CAMPAIGN
@click.option("--phase", required=True, help="The phase to estimate.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the bootstrap; the plan's when not given.")
@click.option(
    "--resamples", type=click.IntRange(100, 10_000_000), help="Resamples of the bootstrap; the plan's when not given."
)
@click.option("--format", "form", type=click.Choice(["json", "csv", "md"]), default="md", show_default=True)
@click.option(
    "--seeds", help="Sweep over seeds, such as 0-199: what moves, and which claims flip. Formats json and md."
)
@shows_errors
def estimates(
    campaign: Path, phase: str, seed: int | None, resamples: int | None, form: str, seeds: str | None
) -> None:
    """Every estimate of a phase, recomputed from its raw logs."""
    swept = _seeds(seeds, form)
    report = open_report(campaign, phase, seed, resamples)
    if swept:
        click.echo(printable(sweep_exports.FORMATS[form](report, sweep_exports.of_report(report, swept))), nl=False)
    else:
        text = exports.FORMATS[form](report)
        click.echo(text if form == "csv" else printable(text), nl=False)  # CSV is data, and stays as it is


def _seeds(text: str | None, form: str) -> tuple[int, ...]:
    if text is None:
        return ()
    if form not in sweep_exports.FORMATS:
        raise WrongUse("--seeds", f"no format {form} of a sweep", expected=" or ".join(sweep_exports.FORMATS))
    try:
        return parse_seeds(text)
    except ValueError as error:
        raise WrongUse("--seeds", str(error), found=text, remedy="for example --seeds 0-199") from None


@main.command()
@CAMPAIGN
@click.option(
    "--restore",
    "folder",
    type=click.Path(path_type=Path),
    help="A new folder for a copy of the aggregate with the labels of the sealed plan.",
)
@click.option("--aggregate", type=click.Path(path_type=Path), help="What is restored; metrics.csv when not given.")
@shows_errors
def labels(campaign: Path, folder: Path | None, aggregate: Path | None) -> int:
    """Rebuild every label from the sealed plan and the per-run logs, and assert it; or restore lost ones."""
    store = find_campaign(campaign)
    assert_raw_logs(store)
    if aggregate and not folder:
        raise WrongUse(
            "--aggregate", "nothing to do with it", remedy="name a folder for the restored copy: --restore DIR"
        )
    if folder:
        click.echo(restore_into(store, aggregate or store.metrics_path, folder).sentence())
        return 0
    report = check_labels(store, store.plan())
    for problem in report.problems:
        click.echo(printable(f"problem: {problem}"))
    click.echo(printable(report.sentence()))
    return 0 if report.hold else 1


@main.command()
@CAMPAIGN
@click.option("--phase", help="Only this phase.")
@click.option("--format", "form", type=click.Choice(list(claim_exports.FORMATS)), default="text", show_default=True)
@click.option(
    "--require", multiple=True, metavar="ID", help="Exit status 1 unless this claim is supported; nominal-only is not."
)
@shows_errors
def claims(campaign: Path, phase: str | None, form: str, require: tuple[str, ...]) -> int:
    """Every claim of the plan with its status and the numbers that decide it."""
    plan = find_campaign(campaign).plan()
    if phase is not None:
        assert_phase(plan, phase)
    reports = [open_report(campaign, name) for name in plan.phases if phase in (None, name)]
    unmet = claim_exports.unmet(reports, require)
    click.echo(printable(claim_exports.FORMATS[form](reports)), nl=False)
    for line in unmet:
        click.echo(printable(line), err=True)
    return 1 if unmet else 0


@main.command()
@CAMPAIGN
@click.option("--phase", required=True, help="The phase to account for.")
@shows_errors
def times(campaign: Path, phase: str) -> None:
    """Where the wall time of a phase went, and the runner's own share of it."""
    found = open_report(campaign, phase).times
    for name, seconds in found.parts().items():
        click.echo(f"{name:<12} {seconds:9.2f} s")
    click.echo(f"runner's own remainder over process time: {found.share:.2%}")


@main.command()
@click.argument("campaign", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option("--phase", help="Only this phase.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the bootstrap; the plan's when not given.")
@shows_errors
def render(campaign: Path | None, phase: str | None, seed: int | None) -> None:
    """Write the pages of a campaign into the book; of every campaign below data/ when none is given."""
    from analysis import rendering

    stores = [find_campaign(campaign)] if campaign else rendering.campaigns()
    rendering.render(stores, lambda text: click.echo(text, err=True), phase=phase, seed=seed)


if __name__ == "__main__":
    main(prog_name="python -m analysis")
