"""``napari-kpac models``: list, show, verify, import, install and remove models.

Not for: training them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from napari_kpac.cli.common import Commands, add_command, print_json, print_table


def register(commands: Commands) -> None:
    """Declare the command."""
    group = add_command(
        commands,
        "models",
        None,
        summary="list, inspect and manage models",
        example="napari-kpac models list",
    )
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_command(
        actions, "list", _list, summary="list the models", example="napari-kpac models list"
    )
    show = add_command(
        actions,
        "show",
        _show,
        summary="show a model's card, configuration and size",
        example="napari-kpac models show default",
    )
    show.add_argument("model", help="a name, or the path of a .safetensors or .npz file")
    verify = add_command(
        actions,
        "verify",
        _verify,
        summary="check models against the fingerprint in their card",
        example="napari-kpac models verify",
    )
    verify.add_argument("model", nargs="*", help="names or paths; all models where none is given")
    importer = add_command(
        actions,
        "import",
        _import,
        summary="convert the authors' .npz weights into a model file",
        example="napari-kpac models import single_3level.npz -o authors-3level.safetensors",
    )
    importer.add_argument("source", type=Path, help="the authors' .npz file")
    importer.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the model file to write"
    )
    importer.add_argument("--name", help="name in the card (default: that of the output file)")
    install = add_command(
        actions,
        "install",
        _install,
        summary="check a model file, show what it is and add it to your models",
        example="napari-kpac models install mine.safetensors",
    )
    install.add_argument("source", type=Path, help="a .safetensors model or an authors' .npz")
    install.add_argument("--name", help="name to install it under (default: that in its card)")
    install.add_argument("--overwrite", action="store_true", help="replace one of the same name")
    remove = add_command(
        actions,
        "remove",
        _remove,
        summary="delete a model that you installed",
        example="napari-kpac models remove mine",
    )
    remove.add_argument("model", help="the name of an installed model")


def _list(given: argparse.Namespace) -> None:
    from napari_kpac.weights import models, user_folder

    entries = models()
    if given.json:
        print_json([_entry(entry) for entry in entries])
        return
    print_table(
        ("name", "origin", "status", "levels", "views", "summary"),
        [
            (
                entry.name + (" (default)" if entry.is_default else ""),
                entry.origin,
                entry.card.status or "-",
                entry.config.levels,
                entry.config.views,
                entry.card.summary,
            )
            for entry in entries
        ],
    )
    print(f"\nYour own models are kept in {user_folder()}")


def _entry(entry: Any) -> dict[str, Any]:
    return {
        "origin": entry.origin,
        "path": str(entry.path),
        "default": entry.is_default,
        "card": entry.card.to_dict(),
        "config": entry.config.to_dict(),
    }


def _show(given: argparse.Namespace) -> None:
    from napari_kpac.network import count_parameters
    from napari_kpac.weights import load

    net = load(given.model)
    if given.json:
        print_json(
            {
                "card": net.card.to_dict(),
                "config": net.config.to_dict(),
                "parameters": count_parameters(net),
            }
        )
        return
    _print_network(net)


def _print_network(net: Any) -> None:
    """Show what a network is: its card, its configuration, its size."""
    from napari_kpac.network import count_parameters

    _print_card(net.card.to_dict())
    print("\nnetwork")
    for key, value in net.config.to_dict().items():
        print(f"  {key:<18}{value}")
    print(f"  {'parameters':<18}{count_parameters(net):,}")


def _print_card(card: dict[str, Any]) -> None:
    for key, value in card.items():
        if key == "figures":
            if value:
                print("figures")
                width = max(map(len, value)) + 2
                for name, figure in value.items():
                    print(f"  {name:<{width}}{figure:g}")
        elif value:
            print(f"{key.replace('_', ' '):<20}{value}")


def _verify(given: argparse.Namespace) -> int:
    from napari_kpac.core.errors import KpacError
    from napari_kpac.weights import load, models

    wanted = given.model or [str(entry.path) for entry in models()]
    results = []
    for model in wanted:
        try:
            net = load(model)
            results.append({"model": model, "ok": True, "sha256": net.card.sha256})
        except KpacError as error:
            results.append({"model": model, "ok": False, "problem": str(error)})
    if given.json:
        print_json(results)
    else:
        for result in results:
            print(f"{'ok' if result['ok'] else 'BAD':<4}{result.get('problem', result['model'])}")
    return 0 if all(result["ok"] for result in results) else 1


def _import(given: argparse.Namespace) -> None:
    from napari_kpac.weights import import_weights

    card = import_weights(given.source, given.output, given.name)
    _report(given, card.to_dict(), f"wrote {given.output}")


def _install(given: argparse.Namespace) -> None:
    from napari_kpac.weights import install, load

    net = load(given.source)
    if not given.json:
        _print_network(net)
    entry = install(given.source, given.name, overwrite=given.overwrite)
    if given.json:
        print_json(entry.card.to_dict())
    else:
        print(f"\ninstalled as {entry.name!r} in {entry.path}")


def _report(given: argparse.Namespace, card: dict[str, Any], done: str) -> None:
    if given.json:
        print_json(card)
    else:
        _print_card(card)
        print(done)


def _remove(given: argparse.Namespace) -> None:
    from napari_kpac.weights import remove

    path = remove(given.model)
    if given.json:
        print_json({"removed": str(path)})
    else:
        print(f"removed {path}")
