"""Write the dependencies of napari-kpac: an SBOM (CycloneDX, JSON) and a table of licences.

    python tools/sbom.py --output sbom.json --licences licences.md

Everything that the package and its extras need is taken, as installed in the environment that
runs this script, down to the last dependency; what only the project's own tests need is not.
The models that ship with the package are listed too, with their SHA-256.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "napari-kpac"
EXTRAS = ("all",)
WEIGHTS = Path(__file__).parents[1] / "src" / "napari_kpac" / "weights" / "bundled"
MAX_NAME_LENGTH = 60
"""Characters of a licence's name; what is longer is the licence itself."""


def needed(found: Distribution, extras: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names of what a package needs here, and which extras of it."""
    for text in found.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield requirement.name, tuple(sorted(requirement.extras))


def closure(
    package: str, extras: tuple[str, ...]
) -> tuple[dict[str, Distribution], dict[str, set[str]]]:
    """Return all packages that are needed, and for each what it needs itself, by its name."""
    packages: dict[str, Distribution] = {}
    needs: dict[str, set[str]] = {}
    waiting, seen = [(package, extras)], set()
    while waiting:
        name, wanted = waiting.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed; pip install -e '.[{EXTRAS[0]}]'") from None
        packages[canonicalize_name(name)] = found
        inside = needs.setdefault(canonicalize_name(name), set())
        for each in needed(found, wanted):
            inside.add(canonicalize_name(each[0]))
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return packages, needs


def licence(found: Distribution) -> str:
    """Return the licence of a package, from its metadata."""
    about = found.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    kinds = [
        line.split(" :: ")[-1]
        for line in about.get_all("Classifier") or ()
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    text = " ".join((about.get("License") or "").split())
    return "; ".join(kinds) or (text if 0 < len(text) <= MAX_NAME_LENGTH else "see its files")


def bom(packages: dict[str, Distribution], needs: dict[str, set[str]]) -> dict[str, Any]:
    """Return the SBOM."""
    listed = [_component(name, found) for name, found in sorted(packages.items())]
    own = next(each for each in listed if each["name"] == PACKAGE)
    others = [each for each in listed if each is not own]
    content = json.dumps(listed, sort_keys=True)
    references = {each["name"]: each["bom-ref"] for each in listed}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same packages give the same list, number and all.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": [*others, *_models()],
        "dependencies": [
            {"ref": references[name], "dependsOn": sorted(references[each] for each in inside)}
            for name, inside in sorted(needs.items())
        ],
    }


def _component(name: str, found: Distribution) -> dict[str, Any]:
    reference = f"pkg:pypi/{name}@{found.version}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": found.version,
        "purl": reference,
        "licenses": [{"license": {"name": licence(found)}}],
    }


def _models() -> list[dict[str, Any]]:
    return [
        {
            "type": "machine-learning-model",
            "bom-ref": f"model:{path.stem}",
            "name": path.stem,
            "hashes": [
                {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}
            ],
        }
        for path in sorted(WEIGHTS.glob("*.safetensors"))
    ]


def table(packages: dict[str, Distribution]) -> str:
    """Write the licences as Markdown."""
    rows = ["| package | version | licence |", "|---|---|---|"]
    for name, found in sorted(packages.items()):
        rows.append(f"| {name} | {found.version} | {licence(found).replace('|', '/')} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("sbom.json"))
    parser.add_argument("--licences", type=Path, default=Path("licences.md"))
    given = parser.parse_args()
    packages, needs = closure(PACKAGE, EXTRAS)
    made = bom(packages, needs)
    given.output.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    given.licences.write_text(table(packages), encoding="utf-8")
    unknown = [name for name, found in packages.items() if licence(found) == "see its files"]
    models = len(made["components"]) - len(packages) + 1
    print(f"{given.output}: {len(packages)} packages, {models} model(s)")
    print(f"{given.licences}: {len(packages) - len(unknown)} name their licence", end="")
    print(f"; look into {', '.join(sorted(unknown))}" if unknown else "")


if __name__ == "__main__":
    main()
