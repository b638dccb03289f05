"""Average the weights of models that were trained from the same start.

    python tools/average_models.py one/ema.safetensors other/ema.safetensors --share 0.6 0.4 \
        -o average.safetensors

The result has the card of the first model. Measure it like any other: an average lies between
models that went on from the same weights, and is often a little better; of models with different
starts it is of no use.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from napari_kpac.core.errors import KpacError
from napari_kpac.weights import read_network, save_network


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the average of some models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="+")
    parser.add_argument(
        "--share", type=float, nargs="+", help="of each model; 1 together; default: all alike"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    shares = given.share or [1 / len(given.model)] * len(given.model)
    if len(shares) != len(given.model) or abs(sum(shares) - 1) > 1e-6:
        parser.error("--share needs one number for each model, 1 together")
    try:
        nets = [read_network(path) for path in given.model]
    except KpacError as error:
        parser.error(str(error))
    first = nets[0]
    for path, net in zip(given.model, nets, strict=True):
        if net.config != first.config:
            parser.error(f"{path}: its layers are not those of {given.model[0]}")
    states = [net.state_dict() for net in nets]
    for name, tensor in first.state_dict().items():
        parts = [share * state[name] for share, state in zip(shares, states, strict=True)]
        tensor.copy_(sum(parts[1:], start=parts[0]))
    save_network(first, given.output, first.card)
    print(f"wrote {given.output}")


if __name__ == "__main__":
    main()
