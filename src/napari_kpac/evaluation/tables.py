"""The tables of an evaluation, as text cells that a terminal, a page or a window can show.

Not for: the numbers (summary), or how a table looks (cli, page).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_kpac.evaluation import paper
from napari_kpac.evaluation.bins import BINS, MEASURES, column
from napari_kpac.evaluation.muting import COST, bin_place, cost_column
from napari_kpac.evaluation.probe import MUTED_FAR, MUTED_NEAR, SHARP_KEPT
from napari_kpac.evaluation.summary import ALL_PIXELS, INPUT, ONE_TO_EIGHT_PX, Line

if TYPE_CHECKING:
    from napari_kpac.evaluation.evaluating import Evaluation

NOT_MEASURED = "not measured"
FITTED = "gain and offset of each channel were fitted to the truth first"
ON_DPDD = "the paper's figures are the paper's, on the test set of DPDD"


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def tables_of(found: Evaluation) -> list[Table]:
    """Make every table of an evaluation."""
    from napari_kpac.evaluation.blur_study import BlurStudy

    if isinstance(found.study, BlurStudy):
        return [*_detection(found.lines), _paper_detection()]
    lines = found.lines
    lpips = found.study.lpips_missing
    notes = [f"SSIM: preset {found.options.ssim}"]
    notes += [f"LPIPS {lpips}"] if lpips else []
    notes += [FITTED] if found.options.fit_exposure else []
    measures = ("psnr", "ssim", "mae", "lpips")
    tables = [_means("All pixels, mean over images", lines, measures, note="; ".join(notes))]
    binned = any(line.mean_gain is not None or _binned(line) for line in lines)
    if any(line.method != INPUT for line in lines):
        tables.append(_through_alpha(lines, binned=binned))
    if binned:
        tables += _by_radius(lines)
    return [*tables, _paper_quality(found)]


def number(value: float | None, name: str) -> str:
    """Write a score with as many digits as mean something."""
    if value is None:
        return "-"
    return f"{value:.2f}" if name.startswith(("psnr", SHARP_KEPT, COST)) else f"{value:.4f}"


def printed(value: float | None, digits: int) -> str:
    """Write a figure with the digits that the paper gives it."""
    return "-" if value is None else f"{value:.{digits}f}"


def _binned(line: Line) -> bool:
    return any(column("psnr", where) in line.means for where in BINS)


def _by_radius(lines: Sequence[Line]) -> list[Table]:
    binned = [
        _means(f"{measure.upper()} by radius", lines, [column(measure, where) for where in BINS])
        for measure in MEASURES
    ]
    gains = [column("psnr", where) for where in BINS]
    measures = list(dict.fromkeys(name for line in lines for name in line.separation))
    return [
        *binned,
        Table(
            "PSNR above the input's by radius, in dB",
            ("method", "noise %", *(where.label + " px" for where in BINS), "mean 1-8 px"),
            [
                (
                    *_name(line),
                    *(number(line.gains.get(name), "psnr") for name in gains),
                    number(line.mean_gain, "psnr"),
                )
                for line in lines
            ],
            "the mean is that of 1-2, 2-4 and 4-8 px",
        ),
        _means(
            "Does no harm, and uses its dilations (dB)",
            [line for line in lines if SHARP_KEPT in line.means],
            (SHARP_KEPT, MUTED_FAR, MUTED_NEAR),
            "sharp kept: the noise that is added is on the sharp image as well",
        ),
        _muting(lines),
        Table(
            "ROC AUC of blurred (above 2 px) against sharp (below 0.5 px) where there is texture",
            ("method", "noise %", *measures),
            [
                (*_name(line), *(number(line.separation.get(name), "auc") for name in measures))
                for line in lines
                if line.separation
            ],
            "larger values count as more blurred; 1 - AUC is that of the opposite polarity",
        ),
    ]


def _through_alpha(lines: Sequence[Line], *, binned: bool) -> Table:
    """Show the gain of every method, its worst, and what is left of it without alpha."""
    places = (ALL_PIXELS, ONE_TO_EIGHT_PX) if binned else (ALL_PIXELS,)

    def cells(line: Line, place: str) -> tuple[str, ...]:
        gain = line.gains.get("psnr") if place == ALL_PIXELS else line.mean_gain
        share = line.share_through_alpha.get(place)
        return (
            number(gain, "psnr"),
            number(line.muted_gains.get(place), "psnr"),
            "-" if share is None else str(round(100 * share)),
        )

    what = ("gain", "everything muted", "% through alpha")
    return Table(
        "PSNR above the input's in dB, and the share that comes through alpha",
        (
            "method",
            "noise %",
            "worst gain",
            *(f"{each}, {place}" for place in places for each in what),
        ),
        [
            (
                *_name(line),
                number(line.worst_gain, "psnr"),
                *(cell for place in places for cell in cells(line, place)),
            )
            for line in lines
            if line.method != INPUT
        ],
        "worst: of an image; everything muted: the gain with all alphas 0 in every block; "
        "through alpha: the share of the gain that is lost then, where there is a gain",
    )


def _muting(lines: Sequence[Line]) -> Table:
    """Show what is lost when alphas are muted, by radius."""
    places = [*(bin_place(where) for where in BINS), ""]
    return Table(
        "Cost of muting alphas by radius, in dB",
        ("method", "noise %", "muted", *(where.label + " px" for where in BINS), ALL_PIXELS),
        [
            (
                *_name(line),
                muted,
                *(number(line.means.get(cost_column(muted, place)), COST) for place in places),
            )
            for line in lines
            for muted in _muted(line)
        ],
        "muted in every block; mean over the images that have 1 % of their pixels there",
    )


def _muted(line: Line) -> list[str]:
    """Return the names of what was muted with a cost over all pixels."""
    costs = [name for name in line.means if name.startswith(COST)]
    return [name.removeprefix(COST).strip() for name in costs if not name.endswith(" px")]


def _means(title: str, lines: Sequence[Line], columns: Sequence[str], note: str = "") -> Table:
    return Table(
        title,
        ("method", "noise %", "images", *(_heading(name) for name in columns)),
        [
            (
                *_name(line),
                str(line.images),
                *(number(line.means.get(name), name) for name in columns),
            )
            for line in lines
        ],
        note,
    )


def _heading(name: str) -> str:
    """Drop the measure before a bin: the table's title says it."""
    return name.partition(" ")[2] if name.endswith(" px") and name[0] in "psm" else name


def _name(line: Line) -> tuple[str, str]:
    return line.method, f"{line.noise:g}"


def _paper_quality(found: Evaluation) -> Table:
    """Put every row that the paper prints beside what was measured here, if anything was."""
    labels = _paper_labels(found)
    measures: Sequence[tuple[str, Callable[[paper.PaperRow], float | None]]] = (
        ("psnr", lambda row: row.psnr),
        ("ssim", lambda row: row.ssim),
        ("lpips", lambda row: row.lpips),
    )
    rows = []
    for row in paper.QUALITY:
        theirs = [printed(value(row), 2 if name == "psnr" else 3) for name, value in measures]
        mine = [line for line in found.lines if labels.get(line.method) == row.label]
        for line in (line for line in mine if line.noise == 0):
            ours = [number(line.means.get(name), name) for name, _ in measures]
            rows.append((row.label, *theirs, line.method, *ours))
        if not mine:
            rows.append((row.label, *theirs, NOT_MEASURED, "-", "-", "-"))
    return Table(
        "The paper's comparison, and ours",
        ("paper", "PSNR", "SSIM", "LPIPS", "here", "PSNR", "SSIM", "LPIPS"),
        rows,
        f"{ON_DPDD}, SSIM of preset paper; ours are of {_data(found)}, SSIM of preset "
        f"{found.options.ssim}. Compare them only on the same data and preset",
    )


def _paper_labels(found: Evaluation) -> Mapping[str, str]:
    """Say which of the paper's rows each method stands for."""
    labels = {"input": paper.BLURRED_INPUT.label, "ebdb": "EBDB"}
    for method, settings in found.study.settings["methods"].items():
        if "levels" in settings:
            dual = settings["views"] == 2
            labels[method] = "KPAC (dual)" if dual else f"KPAC ({settings['levels']}-level)"
    return labels


def _data(found: Evaluation) -> str:
    kinds = {"synthetic": "synthetic data", "dpdd": "data in DPDD's layout", "pairs": "your pairs"}
    return f"{kinds[found.options.kind]}, split {found.options.split}"


def _detection(lines: Sequence[Line]) -> list[Table]:
    from napari_kpac.evaluation.blur_study import MEASURES as MEASURED
    from napari_kpac.evaluation.blur_study import RULE_NAMES, WHOLE

    tables = [
        Table(
            f"Blur detection, {measure}, by rule for the threshold",
            ("measure of blur", "images", *RULE_NAMES),
            [
                (
                    line.method,
                    str(line.images),
                    *(
                        number(line.means.get(f"{measure} by {rule}"), measure)
                        for rule in RULE_NAMES
                    ),
                )
                for line in lines
            ],
            "the number behind F is beta squared; best F takes the best threshold of each image",
        )
        for measure in MEASURED
    ]
    names = [name.replace("_", " ") for name in WHOLE]
    rows = [
        (line.method, *(number(line.means.get(name), name) for name in WHOLE)) for line in lines
    ]
    return [*tables, Table("Without a threshold", ("measure of blur", *names), rows)]


def _paper_detection() -> Table:
    return Table(
        "The paper's figures",
        ("measure of blur", "F-measure", "accuracy"),
        [
            (name, printed(scores["F-measure"], 3), printed(scores["accuracy"], 3))
            for name, scores in paper.DETECTION.items()
        ],
        "the paper's, on 200 images of CUHK; it does not define its F-measure or threshold",
    )
