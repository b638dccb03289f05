"""``napari-kpac models``: list, show, verify, import, export, install and remove models.

Not for: training them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

from napari_kpac import network, weights
from napari_kpac.cli.common import (
    FAILED,
    Commands,
    add_command,
    print_json,
    print_result,
    print_table,
)
from napari_kpac.core.errors import KpacError
from napari_kpac.core.options import ExportFormat


def register(commands: Commands) -> None:
    """Declare the command and its actions."""
    group = add_command(
        commands,
        "models",
        None,
        summary="list, inspect and manage models",
        example="napari-kpac models list",
    )
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_command(actions, "list", _list, example="napari-kpac models list")
    show = add_command(actions, "show", _show, example="napari-kpac models show default")
    show.add_argument("model", help="a name, or the path of a .safetensors or .npz file")
    verify = add_command(actions, "verify", _verify, example="napari-kpac models verify")
    verify.add_argument("model", nargs="*", help="names or paths; all models where none is given")
    importer = add_command(
        actions,
        "import",
        _import,
        example="napari-kpac models import single_3level.npz -o authors-3level.safetensors",
    )
    importer.add_argument("source", type=Path, help="an .npz file of KPAC's or DMENet's authors")
    importer.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the model file to write"
    )
    importer.add_argument("--name", help="name in the card (default: that of the output file)")
    exporter = add_command(
        actions,
        "export",
        _export,
        example="napari-kpac models export default --format onnx -o kpac.onnx",
    )
    exporter.add_argument("model", help="a name, or the path of a .safetensors or .npz file")
    exporter.add_argument(
        "--format",
        choices=get_args(ExportFormat),
        default="bioimageio",
        help="a bioimage.io package with everything in it, or the network alone "
        "(default: %(default)s)",
    )
    exporter.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write (default: the name of the model, in this folder)",
    )
    exporter.add_argument(
        "--author",
        action="append",
        default=[],
        metavar="NAME",
        help="whom a package is by; once for each (default: known for bundled models)",
    )
    install = add_command(
        actions, "install", _install, example="napari-kpac models install mine.safetensors"
    )
    install.add_argument("source", type=Path, help="a .safetensors model or an authors' .npz")
    install.add_argument("--name", help="name to install it under (default: that in its card)")
    install.add_argument("--overwrite", action="store_true", help="replace one of the same name")
    remove = add_command(actions, "remove", _remove, example="napari-kpac models remove mine")
    remove.add_argument("model", help="the name of an installed model")


def _list(given: argparse.Namespace) -> None:
    """List the models."""
    entries = weights.models()
    if given.json:
        print_json(
            [
                {
                    "origin": entry.origin,
                    "path": str(entry.path),
                    "default": entry.is_default,
                    "network": entry.kind,
                    "card": entry.card.to_dict(),
                    "config": entry.config.to_dict(),
                }
                for entry in entries
            ]
        )
        return
    print_table(
        ("name", "network", "origin", "status", "levels", "views", "summary"),
        [
            (
                entry.name + (" (default)" if entry.is_default else ""),
                entry.kind,
                entry.origin,
                entry.card.status or "-",
                entry.config.levels,
                entry.config.views,
                entry.card.summary,
            )
            for entry in entries
        ],
    )
    print(f"\nYour own models are kept in {weights.user_folder()}")


def _show(given: argparse.Namespace) -> None:
    """Show a model's card, configuration and size."""
    net = weights.load_network(given.model)
    data = {
        "card": net.card.to_dict(),
        "network": net.config.KIND,
        "config": net.config.to_dict(),
        "parameters": network.count_parameters(net),
    }
    print_result(given, data, _network_text(net))


def _verify(given: argparse.Namespace) -> int:
    """Check models against the fingerprint in their card."""
    results = []
    for model in given.model or [str(entry.path) for entry in weights.models()]:
        try:
            sha256 = weights.load_network(model).card.sha256
            results.append({"model": model, "ok": True, "sha256": sha256})
        except KpacError as error:
            results.append({"model": model, "ok": False, "problem": str(error)})
    lines = [
        f"{'ok' if result['ok'] else 'BAD':<4}{result.get('problem', result['model'])}"
        for result in results
    ]
    print_result(given, results, "\n".join(lines))
    return 0 if all(result["ok"] for result in results) else FAILED


def _import(given: argparse.Namespace) -> None:
    """Convert the authors' .npz weights into a model file."""
    card = weights.import_weights(given.source, given.output, given.name).to_dict()
    print_result(given, card, f"{_card_text(card)}\nwrote {given.output}")


def _export(given: argparse.Namespace) -> None:
    """Write a model for other programs: bioimage.io, ONNX or TorchScript."""
    written = weights.export_model(
        given.model, given.output, given.format, authors=tuple(given.author)
    )
    data = {"format": given.format, "path": str(written), "bytes": written.stat().st_size}
    print_result(given, data, f"wrote {written} ({given.format}, {data['bytes']:,} bytes)")


def _install(given: argparse.Namespace) -> None:
    """Check a model file, show what it is and add it to your models."""
    if not given.json:
        print(_network_text(weights.load_network(given.source)))
    entry = weights.install(given.source, given.name, overwrite=given.overwrite)
    print_result(given, entry.card.to_dict(), f"\ninstalled as {entry.name!r} in {entry.path}")


def _remove(given: argparse.Namespace) -> None:
    """Delete a model that you installed."""
    path = weights.remove(given.model)
    print_result(given, {"removed": str(path)}, f"removed {path}")


def _network_text(net: network.KPACNet | network.DMENet) -> str:
    """Return the card, the configuration and the size of a network as text."""
    lines = [_card_text(net.card.to_dict()), "", "network"]
    lines.append(f"  {'kind':<18}{net.config.KIND}")
    lines += [f"  {key:<18}{value}" for key, value in net.config.to_dict().items()]
    lines.append(f"  {'parameters':<18}{network.count_parameters(net):,}")
    return "\n".join(lines)


def _card_text(card: dict[str, Any]) -> str:
    """Return a model card as text, without the fields that are empty."""
    lines = []
    for key, value in card.items():
        if key in ("figures", "sliders") and value:
            width = max(map(len, value)) + 2
            lines.append(key)
            lines += [f"  {name:<{width}}{figure:g}" for name, figure in value.items()]
        elif value:
            lines.append(f"{key.replace('_', ' '):<20}{value}")
    return "\n".join(lines)
