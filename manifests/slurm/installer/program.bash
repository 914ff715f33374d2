# shellcheck shell=bash
# The programs: a virtual environment for each version, and a link that names the one that counts.

readonly venvs=/opt/dutycycle/venvs

python_version='' machine='' venv='' restart=''

check_python() {
    local candidate found=''
    if [[ -n $python ]]; then
        command -v "$python" >/dev/null || { problem "there is no $python, given as --python"; return; }
        new_enough "$python" || { problem "$python is too old: Python 3.11 or newer is needed"; return; }
    else
        for candidate in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
            if new_enough "$candidate"; then
                found=$candidate
                break
            fi
        done
        [[ -n $found ]] || { problem 'Python 3.11 or newer is needed: install python3.11 (or newer), or name one by --python'; return; }
        python=$found
    fi
    "$python" -I -c 'import ensurepip, venv' 2>/dev/null ||
        { problem "$python cannot make virtual environments: install its package of venv (python3-venv)"; return; }
    python_version=$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    machine=$("$python" -I -c 'import platform; print(platform.machine())')
    # The services' users have no rights: a Python below /root is not for them.
    if [[ -z $root && $EUID -eq 0 ]] && command -v setpriv >/dev/null; then
        setpriv --reuid=65534 --regid=65534 --clear-groups -- "$python" -I -c '' 2>/dev/null ||
            problem "$python can be run by root only: name one by --python that every user can run"
    fi
}

new_enough() {
    "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Everything that the list names is there, unharmed, and for this machine.
check_wheels() {
    local list=$wheels/$1.txt name version sum_said found wheel line
    [[ -d $wheels && -r $list ]] || {
        problem "$list is missing: run make wheels in a checkout, and name its build/wheels by --wheels"
        return
    }
    wheels=$(cd -- "$wheels" && pwd)
    [[ -n $python_version ]] || return 0
    while read -r line; do
        [[ $line =~ ^([a-z0-9][a-z0-9.-]*)(\[[a-z,]+\])?==([0-9A-Za-z.!+]+)\ --hash=sha256:([0-9a-f]{64})$ ]] || {
            [[ -z $line || $line == '#'* ]] || problem "$list: what is ${line:0:60}? Gather the wheels anew: make wheels"
            continue
        }
        name=${BASH_REMATCH[1]//[.-]/_} version=${BASH_REMATCH[3]} sum_said=${BASH_REMATCH[4]} found=''
        for wheel in "$wheels/$name-$version"-*.whl; do
            [[ ! -r $wheel ]] || ! fits "$wheel" || found=$wheel
        done
        if [[ -z $found ]]; then
            problem "$wheels has no wheel of $name $version for Python $python_version on $machine: run make wheels on such a machine, with PYTHON=$python"
        elif [[ $(sum "$found") != "$sum_said" ]]; then
            problem "$found is not what $list says: copy it again"
        fi
    done < "$list"
}

# Whether a wheel is for our Python and machine, by its name; pip has the last word.
fits() {
    local tags=${1%.whl}
    local system=${tags##*-}
    tags=${tags%-*}
    local interpreter=${tags%-*} abi=${tags##*-}
    interpreter=${interpreter##*-}
    [[ $system == any || $system == *_"$machine" || $system == *_"$machine".* ]] &&
        [[ $interpreter == *py3* || $interpreter == "cp${python_version/./}" || $abi == abi3 ]]
}

plan_program() {
    local digest
    digest=$({ grep -v '^#' "$wheels/$1.txt"; "$python" -I -VV; readlink -f -- "$(command -v "$python")"; } | sha256sum)
    venv=$venvs/$1-${digest:0:16}
    planning_tree "$venv"
    planning link - "../venvs/${venv##*/}/bin/$2" "/opt/dutycycle/bin/$2"
}

# The environment before this one stays until the next upgrade: it is the way back.
keep_previous() {
    local path now
    now=$(readlink -- "$root/opt/dutycycle/bin/$1" || true)
    now=${now#../venvs/}
    now=$venvs/${now%%/*}
    for path in "${order[@]}"; do
        [[ ${kind[$path]} == tree ]] || continue
        [[ $now != "$venv" && $path != "$now" ]] || planning_tree "$path"
    done
}

# The new program reads the operator's configuration, as the alerter's user, before it takes the old one's place.
check_configuration() {
    local said config=/etc/dutycycle/config.yaml
    [[ -z $dry && -z $root && -n ${was[$unit_directory/dutycycle-alerter.service]:-} && -r $config ]] || return 0
    [[ $(readlink -- /opt/dutycycle/bin/dutycycle || true) != "../venvs/${venv##*/}/"* ]] || return 0
    said=$(DUTYCYCLE_PROGRAM=$venv/bin/dutycycle "$here/dutycycle-alerter" config "$config" 2>&1) || {
        # Only what this run made: it may be the way back.
        [[ -z $restart ]] || rm -rf -- "$venv"
        [[ -n $interrupted ]] || rm -f -- "$records/$role.part"
        problem "the new version does not accept $config, and the old one runs on: $said"
    }
    checked
}

build_program() {
    local list=$wheels/$1.txt here_venv=$root$venv
    if [[ -e $here_venv/.complete ]]; then
        remember tree - "$venv"
        return
    fi
    step makes "$venv, of Python $python_version and $(grep -c == "$list") wheels"
    restart=yes
    [[ -z $dry ]] || return 0
    remember tree - "$venv"
    make_parents "$venv"
    rm -rf -- "$here_venv"
    make_environment "$here_venv"
    PIP_CONFIG_FILE=/dev/null "$here_venv/bin/python" -I "${pip[@]}" install --isolated --quiet --disable-pip-version-check \
        --no-cache-dir --no-compile --no-index --find-links "$wheels" --require-hashes --requirement "$list" || {
        rm -rf -- "$here_venv"
        error "pip could not install $list; nothing that ran was touched"
        exit 1
    }
    # Nothing needs these any more.
    rm -rf -- "$here_venv"/bin/pip* "$here_venv"/lib/python*/site-packages/{pip,pip-*,setuptools,setuptools-*} \
        "$here_venv"/lib/python*/site-packages/{pkg_resources,_distutils_hack,distutils-precedence.pth}
    [[ -z $root ]] || relocate "$here_venv"
    "$here_venv/bin/python" -I -m compileall -q -j 0 -s "$here_venv" -p "$venv" "$here_venv/lib" >/dev/null
    touch -- "$here_venv/.complete"
}

pip=()

# With the pip that Python brings along, from where it is: to install it first would take longer than all the rest.
make_environment() {
    local wheel
    wheel=$("$python" -I - <<'PYTHON'
import ensurepip, pathlib, sysconfig
places = [pathlib.Path(ensurepip.__file__).parent / "_bundled", pathlib.Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "/nowhere")]
print(next((wheel for place in places for wheel in sorted(place.glob("pip-*.whl"))), ""))
PYTHON
    )
    if [[ -r $wheel ]]; then
        "$python" -I -m venv --without-pip -- "$1"
        pip=("$wheel/pip")
    else
        "$python" -I -m venv -- "$1"
        pip=(-m pip)
    fi
}

# In an image paths are without the directory in which it is made.
relocate() {
    local file escaped
    escaped=$(printf '%s' "$root" | sed 's/[][\.*^$|]/\\&/g')
    while IFS= read -r -d '' file; do
        sed -i "s|$escaped/|/|g" -- "$file"
    done < <(grep -rlIZF -- "$root/" "$1/bin" "$1/pyvenv.cfg" || true)
}
