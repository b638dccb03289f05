"""Run commands of tox.ini in the environment that runs this script.

`make` uses it, so that the commands stand in tox.ini alone and no second environment is made.

usage: python tools/checks.py ENV [ENV ...] [-- ARGUMENTS]
"""

import configparser
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def commands(environment: str, arguments: list[str]) -> list[list[str]]:
    """List the commands of one tox environment; {posargs} stands for the arguments."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    text = parser[f"testenv:{environment}"]["commands"].replace("{posargs}", shlex.join(arguments))
    return [shlex.split(line) for line in text.strip().splitlines()]


def main() -> int:
    """Run the commands of the named environments in turn; stop at the first failure."""
    names, _, arguments = " ".join(sys.argv[1:]).partition(" -- ")
    scripts = Path(sys.executable).parent
    path = os.pathsep.join((str(scripts), os.environ.get("PATH", "")))
    for name in names.split():
        for command in commands(name, shlex.split(arguments)):
            print(f"$ {shlex.join(command)}", flush=True)
            done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, check=False)
            if done.returncode:
                print(f"{name}: failed ({done.returncode})", file=sys.stderr)
                return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
