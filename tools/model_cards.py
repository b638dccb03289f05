"""Write docs/reference/models.md from the cards of the bundled models.

python tools/model_cards.py          # write the page
python tools/model_cards.py --check  # fail where the page is not what it should be
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from napari_kpac.core.sliders import (
    GAINS,
    INPUT_KEPT,
    change_column,
    dilations_of,
    overshoot_column,
    won_column,
)
from napari_kpac.core.units import RADIUS_BINS
from napari_kpac.evaluation.tables import decimal
from napari_kpac.network import count_parameters
from napari_kpac.weights import ModelEntry, load, models

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "models.md"
OPENING = """# Models

These models ship with the package; `napari-kpac models list` lists them and those that you
installed, `napari-kpac models show NAME` shows a card. They were trained with `napari-kpac train`
({doc}`/howto/training`) and measured with

```text
python tools/measure_model.py NAME --photos PHOTOS --pairs REAL_PAIRS -o measured
```

on photographs that were kept apart. {doc}`/howto/evaluation` says what the figures mean. The
authors' own weights are not ours to ship; {doc}`/howto/authors-weights` says how to bring them.
"""


def page() -> str:
    """Make the page."""
    sections = [_section(entry) for entry in models() if entry.origin == "bundled"]
    return "\n".join([OPENING, *sections])


def _section(entry: ModelEntry) -> str:
    card, config = entry.card, entry.config
    size = entry.path.stat().st_size / 1e6
    parameters = count_parameters(load(entry.name))
    lines = [
        f"## {card.name}",
        "",
        f"{card.summary}. Version {card.version}{card.status and ', ' + card.status}; licence"
        f" {card.licence}.",
        f"{config.levels} levels, {config.blocks} blocks, {config.views} view(s),"
        f" {parameters:,} parameters, {size:.1f} MB.",
        "",
        f"- **Trained on:** {card.training_data}.",
        f"- **Training:** {card.training}.",
        f"- **Limits:** {card.limits}",
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| {name} | {value:g} |" for name, value in card.figures.items()),
        "",
        *(_sliders(card.sliders) if card.sliders else []),
        *(f"Best for this model: {name} {value:g}.\n" for name, value in card.settings.items()),
        f"SHA-256 of the weights: `{card.sha256}`",
        "",
    ]
    return "\n".join(lines)


def _sliders(measured: Mapping[str, float]) -> list[str]:
    """Return two tables: of all sliders together, and of each one muted."""
    bins = " | ".join(f"{where.label} px" for where in RADIUS_BINS)
    return [
        "All sliders together, PSNR above the input's in dB, and values that overshoot in %:",
        "",
        f"| sliders at | {bins} | overshoot |",
        f"|---|{'---|' * (len(RADIUS_BINS) + 1)}",
        *(
            _row(
                f"{gain:g}",
                *(measured.get(won_column(gain, where)) for where in RADIUS_BINS),
                measured.get(overshoot_column(gain)),
            )
            for gain in GAINS
        ),
        "",
        f"With all sliders at 0 the result is the input to {measured[INPUT_KEPT]:.1f} dB. One"
        " slider at 0 changes the result by so many grey levels (root mean square):",
        "",
        f"| dilation | {bins} |",
        f"|---|{'---|' * len(RADIUS_BINS)}",
        *(
            _row(
                str(dilation),
                *(measured.get(change_column(dilation, where)) for where in RADIUS_BINS),
            )
            for dilation in dilations_of(measured)
        ),
        "",
    ]


def _row(first: str, *values: float | None) -> str:
    return f"| {first} | {' | '.join(decimal(value, 2) for value in values)} |"


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        if PAGE.read_text() != page():
            raise SystemExit(f"{PAGE.name} is not what the cards say: run tools/model_cards.py")
    else:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
