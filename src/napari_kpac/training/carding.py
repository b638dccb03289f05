"""The card of a model that a run made.

Not for: cards in general (weights).
"""

from __future__ import annotations

from napari_kpac.training.options import TrainOptions
from napari_kpac.training.state import Counters
from napari_kpac.training.validation import Scores
from napari_kpac.weights import ModelCard


def card_of_run(
    options: TrainOptions, counters: Counters, data: str, scores: Scores | None
) -> ModelCard:
    """Fill in a card with what the run knows."""
    kind = "dual-pixel, " if options.dual else ""
    figures = {"steps": float(counters.step), "hours": round(counters.seconds / 3600, 2)}
    if scores is not None:
        figures |= {f"validation {k}": round(v, 5) for k, v in scores.figures().items()}
    start = f"started from {options.start}" if options.start else "from scratch"
    return ModelCard(
        name=options.name,
        version="1",
        summary=f"KPAC, {kind}{options.levels} levels, {options.blocks} blocks",
        licence="that of whoever trained it; mind the licences of the data",
        status="in training" if counters.step < options.total else "trained",
        training_data=data,
        training=(
            f"{counters.step} steps of {options.batch} crops of {options.crop}x{options.crop},"
            f" {start}; rate {options.rate:g}, attention modules x {options.attention_rate:g},"
            f" attention loss {options.attention_loss:g}, steering {options.steering:g};"
            f" seed {options.seed};{_phases(options)}"
            f" {counters.seconds / 3600:.1f} hours"
        ),
        limits=(
            "trained on synthetic defocus; blur in real photographs may differ"
            if options.kind == "synthetic"
            else "trained on the data named here; other cameras may need training of their own"
        ),
        figures=figures,
    )


def _phases(options: TrainOptions) -> str:
    """List the phases of a run that has any."""
    if not options.phases:
        return ""
    phases = options.schedule()
    return " phases: " + ", ".join(f"{each.label} {each.end - each.begin}" for each in phases) + ";"
