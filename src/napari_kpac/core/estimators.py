"""Estimators of defocus by name: what there are, and what each is good for.

Loads nothing heavy: options, flags and docks list them from here. Not for: running one
(engine.estimators).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EstimatorInfo:
    """An estimator of defocus: an image goes in, a map of sigma in pixels comes out."""

    name: str
    """What ``source=`` of a blur map and ``method=`` of deblurring take."""
    label: str
    """What the paper's tables call it."""
    good_for: str
    """One line for lists and help."""
    needs_model: bool = False
    """Whether it is a network whose weights are the option ``model``."""


ESTIMATORS = (
    EstimatorInfo(
        "ebdb", "EBDB", "widths of edges: the most exact in pixels, where there are outlines"
    ),
    EstimatorInfo(
        "jnb",
        "JNB",
        "sparse coding: tells blurred from sharp texture; rough in pixels, dislikes noise",
    ),
    EstimatorInfo(
        "dmenet",
        "DMENet",
        "a network of 25 million weights, which you bring or train: also where there are no edges",
        needs_model=True,
    ),
)
"""In the order in which they are listed."""

ESTIMATOR_NAMES = tuple(each.name for each in ESTIMATORS)


def find_estimator(name: str) -> EstimatorInfo | None:
    """Return what is known of an estimator; None where no estimator has that name."""
    return next((each for each in ESTIMATORS if each.name == name), None)
