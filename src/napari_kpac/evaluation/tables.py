"""The tables of an evaluation, as text cells that a terminal, a page or a window can show.

Not for: the numbers (results), or how a table looks (cli, report).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_kpac.core.estimators import ESTIMATORS
from napari_kpac.core.sliders import (
    CHANGE,
    GAINS,
    INPUT_KEPT,
    WON,
    change_column,
    dilations_of,
    overshoot_column,
    won_column,
)
from napari_kpac.evaluation import paper
from napari_kpac.evaluation.attention import (
    COST,
    MUTED_FAR,
    MUTED_NEAR,
    SHARP_KEPT,
    bin_place,
    cost_column,
)
from napari_kpac.evaluation.methods import INPUT, MAP
from napari_kpac.evaluation.metrics import BINS, MEASURES, column
from napari_kpac.evaluation.results import ALL_PIXELS, ONE_TO_EIGHT_PX, Line

if TYPE_CHECKING:
    from napari_kpac.evaluation.study import Evaluation

NOT_MEASURED = "not measured"
FITTED = "gain and offset of each channel were fitted to the truth first"
ON_DPDD = "the paper's figures are the paper's, on the test set of DPDD"
PAPER_RULE = "midrange"
"""Rule for the threshold of the figures that stand beside the paper's."""
PAPER_MAP = "alpha_1, enlarged 4x"
"""How the measure of blur that the paper uses is called here."""
BIN_HEADINGS = tuple(f"{where.label} px" for where in BINS)


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def decimal(value: float | None, digits: int) -> str:
    """Return the text of a number with that many digits; ``-`` where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def score_text(scores: Mapping[str, float], name: str) -> str:
    """Return the text of a score with as many digits as mean something."""
    in_decibels = name.startswith(("psnr", SHARP_KEPT, COST, WON, CHANGE, INPUT_KEPT))
    return decimal(scores.get(name), 2 if in_decibels else 4)


def tables_of(found: Evaluation) -> list[Table]:
    """Return every table of an evaluation."""
    from napari_kpac.evaluation.study import BlurStudy

    lines = found.lines
    if isinstance(found.study, BlurStudy):
        return [*_detection(lines), _paper_detection(found)]
    lpips = found.study.lpips_missing
    notes = [f"SSIM: preset {found.options.ssim}"]
    notes += [f"LPIPS {lpips}"] if lpips else []
    notes += [FITTED] if found.options.fit_exposure else []
    measures = ("psnr", "ssim", "mae", "lpips")
    tables = [_means("All pixels, mean over images", lines, measures, note="; ".join(notes))]
    binned = any(column("psnr", where) in line.means for line in lines for where in BINS)
    if any(line.method != INPUT.name for line in lines):
        tables.append(_through_alpha(lines, binned=binned))
    if binned:
        tables += _by_radius(lines)
    if found.options.sliders:
        tables += _sliders(lines)
    # Where nothing is sharp, say, nothing can be told from it: a table without rows says nothing.
    return [*(table for table in tables if table.rows), _paper_quality(found)]


def _table(
    title: str,
    lines: Sequence[Line],
    headings: Sequence[str],
    cells: Callable[[Line], Sequence[str]],
    note: str = "",
) -> Table:
    """Return a table of one row for each method and noise."""
    rows = [(line.method, f"{line.noise:g}", *cells(line)) for line in lines]
    return Table(title, ("method", "noise %", *headings), rows, note)


def _means(title: str, lines: Sequence[Line], columns: Sequence[str], note: str = "") -> Table:
    # The measure before a bin is left out: the table's title says it.
    headings = [
        name.partition(" ")[2] if name.startswith(MEASURES) and name.endswith(" px") else name
        for name in columns
    ]
    return _table(
        title,
        lines,
        ("images", *headings),
        lambda line: (str(line.images), *(score_text(line.means, name) for name in columns)),
        note,
    )


def _by_radius(lines: Sequence[Line]) -> list[Table]:
    binned = [
        _means(f"{measure.upper()} by radius", lines, [column(measure, where) for where in BINS])
        for measure in MEASURES
    ]
    gains = [column("psnr", where) for where in BINS]
    blur_measures = list(dict.fromkeys(name for line in lines for name in line.separation))
    return [
        *binned,
        _table(
            "PSNR above the input's by radius, in dB",
            lines,
            (*BIN_HEADINGS, "mean 1-8 px"),
            lambda line: (
                *(decimal(line.gains.get(name), 2) for name in gains),
                decimal(line.mean_gain, 2),
            ),
            "the mean is that of 1-2, 2-4 and 4-8 px",
        ),
        _means(
            "Does no harm, and uses its dilations (dB)",
            [line for line in lines if SHARP_KEPT in line.means],
            (SHARP_KEPT, MUTED_FAR, MUTED_NEAR),
            "sharp kept: the noise that is added is on the sharp image as well",
        ),
        _muting(lines),
        _table(
            "ROC AUC of blurred (above 2 px) against sharp (below 0.5 px) where there is texture",
            [line for line in lines if line.separation],
            blur_measures,
            lambda line: [decimal(line.separation.get(name), 4) for name in blur_measures],
            "larger values count as more blurred; 1 - AUC is that of the opposite polarity",
        ),
    ]


def _through_alpha(lines: Sequence[Line], *, binned: bool) -> Table:
    """Return the gain of every method, its worst, and what is left of it without alpha."""
    places = (ALL_PIXELS, ONE_TO_EIGHT_PX) if binned else (ALL_PIXELS,)

    def cells(line: Line) -> list[str]:
        found = [decimal(line.worst_gain, 2)]
        for place in places:
            gain = line.gains.get("psnr") if place == ALL_PIXELS else line.mean_gain
            share = line.share_through_alpha.get(place)
            found += [
                decimal(gain, 2),
                decimal(line.muted_gains.get(place), 2),
                "-" if share is None else str(round(100 * share)),
            ]
        return found

    what = ("gain", "everything muted", "% through alpha")
    return _table(
        "PSNR above the input's in dB, and the share that comes through alpha",
        [line for line in lines if line.method != INPUT.name],
        ("worst gain", *(f"{each}, {place}" for place in places for each in what)),
        cells,
        "worst: of an image; everything muted: the gain with all alphas 0 in every block; "
        "through alpha: the share of the gain that is lost then, where there is a gain",
    )


def _muting(lines: Sequence[Line]) -> Table:
    """Return what is lost when alphas are muted, by radius."""
    places = [*(bin_place(where) for where in BINS), ""]
    rows = []
    for line in lines:
        for name in line.means:
            if name.startswith(COST) and not name.endswith(" px"):
                muted = name.removeprefix(COST).strip()
                costs = [score_text(line.means, cost_column(muted, place)) for place in places]
                rows.append((line.method, f"{line.noise:g}", muted, *costs))
    return Table(
        "Cost of muting alphas by radius, in dB",
        ("method", "noise %", "muted", *BIN_HEADINGS, ALL_PIXELS),
        rows,
        "muted in every block; mean over the images that have 1 % of their pixels there",
    )


def _sliders(lines: Sequence[Line]) -> list[Table]:
    """Return what all sliders do together, and what each one changes, by radius."""
    places = (*BINS, None)
    steered = [line for line in lines if INPUT_KEPT in line.means]
    together = [
        (
            *(line.method, f"{line.noise:g}", f"{gain:g}"),
            *(score_text(line.means, won_column(gain, where)) for where in places),
            decimal(line.means[overshoot_column(gain)], 2),
            score_text(line.means, INPUT_KEPT) if gain == 0 else "-",
        )
        for line in steered
        for gain in GAINS
    ]
    one_by_one = [
        (
            *(line.method, f"{line.noise:g}", str(dilation)),
            *(score_text(line.means, change_column(dilation, where)) for where in places),
        )
        for line in steered
        for dilation in dilations_of(line.means)
    ]
    headings = (*BIN_HEADINGS, ALL_PIXELS)
    return [
        Table(
            "All sliders together: PSNR above the input's by radius, in dB",
            ("method", "noise %", "sliders at", *headings, "overshoot %", "input kept (dB)"),
            together,
            "overshoot: values that leave the range of the sharp image around them by more than 4"
            " grey levels; input kept: the result with all sliders at 0 against the input",
        ),
        Table(
            "One slider at 0: change of the result by radius, in grey levels",
            ("method", "noise %", "dilation", *headings),
            one_by_one,
            "root mean square, white being 255",
        ),
    ]


def _paper_quality(found: Evaluation) -> Table:
    """Return every row that the paper prints beside what was measured here, if anything was."""
    labels = _paper_labels(found)
    rows = []
    for row in paper.QUALITY:
        theirs = [decimal(row.psnr, 2), decimal(row.ssim, 3), decimal(row.lpips, 3)]
        mine = [line for line in found.lines if labels.get(line.method) == row.label]
        for line in mine:
            if line.noise == 0:
                ours = [score_text(line.means, name) for name in ("psnr", "ssim", "lpips")]
                rows.append((row.label, *theirs, line.method, *ours))
        if not mine:
            rows.append((row.label, *theirs, NOT_MEASURED, "-", "-", "-"))
    kinds = {"synthetic": "synthetic data", "dpdd": "data in DPDD's layout", "pairs": "your pairs"}
    options = found.options
    return Table(
        "The paper's comparison, and ours",
        ("paper", "PSNR", "SSIM", "LPIPS", "here", "PSNR", "SSIM", "LPIPS"),
        rows,
        f"{ON_DPDD}, SSIM of preset paper; ours are of {kinds[options.kind]}, split "
        f"{options.split}, SSIM of preset {options.ssim}. Compare them only on the same data and "
        "preset. DMENet is measured where a model of it is among those compared; DPDNet has no "
        "weights here",
    )


def _paper_labels(found: Evaluation) -> Mapping[str, str]:
    """Return the label of the paper's row that each method stands for."""
    labels = {INPUT.name: paper.BLURRED_INPUT.label}
    labels |= {each.name: each.label for each in ESTIMATORS}
    for method, settings in found.study.settings["methods"].items():
        if MAP in settings:
            labels[method] = settings[MAP]
        if "views" in settings:
            dual = settings["views"] == 2
            labels[method] = "KPAC (dual)" if dual else f"KPAC ({settings['levels']}-level)"
    return labels


def _detection(lines: Sequence[Line]) -> list[Table]:
    from napari_kpac.evaluation.study import BLUR_MEASURES, RULE_NAMES, WITHOUT_THRESHOLD

    tables = []
    for measure in BLUR_MEASURES:
        columns = [f"{measure} by {rule}" for rule in RULE_NAMES]
        tables.append(
            Table(
                f"Blur detection, {measure}, by rule for the threshold",
                ("measure of blur", "images", *RULE_NAMES),
                [
                    (line.method, str(line.images), *(score_text(line.means, c) for c in columns))
                    for line in lines
                ],
                "the number behind F is beta squared; best F takes the best threshold of each "
                "image",
            )
        )
    names = [name.replace("_", " ") for name in WITHOUT_THRESHOLD]
    rows = [
        (line.method, *(score_text(line.means, name) for name in WITHOUT_THRESHOLD))
        for line in lines
    ]
    return [*tables, Table("Without a threshold", ("measure of blur", *names), rows)]


def _paper_detection(found: Evaluation) -> Table:
    """Return every row that the paper prints, and those of its other methods, beside ours."""
    labels = dict(_paper_labels(found))
    for line in found.lines:
        if line.method.endswith(PAPER_MAP):
            labels[line.method] = paper.ALPHA_1
    ours = [f"f0.3 by {PAPER_RULE}", f"f1 by {PAPER_RULE}", "f0.3 by best F0.3"]
    ours.append(f"accuracy by {PAPER_RULE}")
    rows = []
    for label in dict.fromkeys([*paper.DETECTION, *(each.label for each in ESTIMATORS)]):
        printed = paper.DETECTION.get(label, {})
        theirs = [decimal(printed.get(name), 3) for name in ("F-measure", "accuracy")]
        mine = [line for line in found.lines if labels.get(line.method) == label]
        for line in mine:
            cells = [score_text(line.means, name) for name in ours]
            rows.append((label, *theirs, line.method, *cells))
        if not mine:
            rows.append((label, *theirs, NOT_MEASURED, *("-" for _ in ours)))
    return Table(
        "The paper's blur detection, and ours",
        ("paper", "F", "accuracy", "here", "F0.3", "F1", "best F0.3", "accuracy"),
        rows,
        "the paper's are on 200 images of CUHK, and it does not define its F-measure or threshold; "
        f"ours are of your data, by rule {PAPER_RULE}, best F0.3 with the best threshold of each "
        "image. For JNB and DMENet the paper prints none. Compare them only on the same images",
    )
