"""``evaluate``: a study from its options, measured step by step and written down.

Not for: what is measured (study, blur_study), tables, or terminals (cli).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.memory import explaining_shortage
from napari_kpac.evaluation.blur_study import BlurStudy
from napari_kpac.evaluation.options import EvaluateOptions
from napari_kpac.evaluation.results import Ledger, Row
from napari_kpac.evaluation.study import PairStudy
from napari_kpac.evaluation.summary import Line, summarise


@dataclass(frozen=True)
class EvaluateProgress(Progress):
    """One more row is there."""

    row: Row | None = None


@dataclass(frozen=True)
class Evaluation:
    """What was measured."""

    options: EvaluateOptions
    study: PairStudy | BlurStudy
    ledger: Ledger
    lines: list[Line]
    """Means over images, one line for each method and noise."""
    report: Path | None = None
    """The page that was written."""


def evaluate(options: EvaluateOptions, output: Path | None = None) -> Steps[Evaluation]:
    """Compare models and methods on a dataset.

    Yields progress after every result; closing the generator cancels. With a folder, results
    are kept as they come: the same call again goes on where the last one stopped.

    Parameters
    ----------
    options
        What is compared on what.
    output
        Folder for ``results.csv``, ``summary.json`` and ``report.html``.

    Raises
    ------
    ConfigError
        If the options make no sense, or the folder holds an evaluation with others.
    FileError
        If data cannot be read or results not be written.
    """
    study = BlurStudy(options) if options.kind == "cuhk" else PairStudy(options)
    ledger = Ledger(study.columns, output, study.settings)
    for index, key in enumerate(study.keys):
        if not ledger.has(key):
            with explaining_shortage(f"{key[1]} on {key[0]}"):
                row, evidence = study.measure(index)
            ledger.add(row, evidence)
        stage = f"{key[0]}: {key[1]}"
        yield EvaluateProgress(index + 1, len(study.keys), stage, row=ledger.find(key))
    found = Evaluation(options, study, ledger, summarise(ledger))
    return found if output is None else (yield from write_report(found, output))


def export_steps(found: Evaluation, output: Path) -> Steps[Evaluation]:
    """Write an evaluation that is only in memory into a folder, as if it had been made there."""
    written = Ledger(found.ledger.columns, output, found.study.settings)
    for row in found.ledger.rows:
        if not written.has(row.key):
            written.add(row, found.ledger.evidence_of(row.key))
    return (yield from write_report(replace(found, ledger=written), output))


def write_report(found: Evaluation, output: Path) -> Steps[Evaluation]:
    """Write the summary and the page of an evaluation into its folder."""
    # Not above: the report knows what an evaluation is.
    from napari_kpac.evaluation.report import report_steps

    page = yield from report_steps(found, output)
    return replace(found, report=page)
