#!/bin/sh
# Makes sure that the operating system has what a napari window under Xvfb needs.
# As root on Debian or Ubuntu it installs what is missing; otherwise it names it and stops.
set -eu
wanted="xvfb xauth libegl1 libglib2.0-0 libdbus-1-3 libfontconfig1 libxkbcommon-x11-0 \
libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 libxcb-shape0"
python=${PYTHON:-python3}

command -v "$python" >/dev/null 2>&1 || { echo "Python 3.11 or newer is needed; $python was not found." >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; $python is $("$python" -V 2>&1). Try: make PYTHON=python3.12" >&2
    exit 1
}
command -v dpkg-query >/dev/null 2>&1 || exit 0  # not Debian or Ubuntu: the libraries are up to you

"$python" -c 'import ensurepip, venv' 2>/dev/null || wanted="$wanted python3-venv"
missing=""
for package in $wanted; do
    [ "${1:-all}" = venv ] && [ "$package" != python3-venv ] && continue
    # Newer releases renamed some packages with the suffix t64; either will do.
    for name in "$package" "${package}t64"; do
        state=$(dpkg-query -W -f '${Status}' "$name" 2>/dev/null || true)
        case "$state" in *" installed") continue 2 ;; esac
    done
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -eq 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    # shellcheck disable=SC2086 - a list of words
    apt-get install -y -q --no-install-recommends $missing
else
    echo "Some system packages are missing. As root, run:" >&2
    echo "  apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi
