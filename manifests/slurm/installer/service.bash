# shellcheck shell=bash
# Users, directories and units, by systemd's own programs where they are; what is left to the next boot is said.

units_changed=''

systemd_runs() {
    [[ -z $root && -d /run/systemd/system ]] && command -v systemctl >/dev/null
}

# make_user NAME FILE: the user of sysusers.d/FILE, now or at boot.
make_user() {
    remember user - "$1"
    [[ -z $root ]] && command -v systemd-sysusers >/dev/null || return 0
    ! getent passwd "$1" >/dev/null || return 0
    step 'makes user' "$1"
    [[ -z $dry ]] || return 0
    remember_shared user "$1"
    systemd-sysusers "/usr/lib/sysusers.d/$2"
}

# make_directories FILE: those of tmpfiles.d/FILE, now or at boot.
make_directories() {
    [[ -z $root && -z $dry ]] && command -v systemd-tmpfiles >/dev/null || return 0
    systemd-tmpfiles --create "/usr/lib/tmpfiles.d/$1"
}

remove_users() {
    local path
    for path in "${order[@]}"; do
        [[ ${kind[$path]} == user ]] || continue
        if [[ -z ${shared[user$'\t'$path]:-} || -n ${others[$path]:-} ]]; then
            [[ -n $dry ]] || forget "$path"
        elif [[ -z $purge ]]; then
            left+=("the user $path")
        else
            step 'removes user' "$path"
            take_from_group "$path"
            [[ -z $dry ]] || continue
            # The group goes with it, unless the site's login.defs say otherwise.
            ! getent passwd "$path" >/dev/null || userdel -- "$path"
            ! getent group "$path" >/dev/null || groupdel -- "$path"
            forget_shared user "$path"
            forget "$path"
        fi
    done
}

# take_from_group NAME: token files that the operator made for the service. They stay, for root only: the group's number
# may later be given to another group.
take_from_group() {
    local file
    shopt -s globstar dotglob nullglob
    for file in "$root"/etc/dutycycle/**; do
        [[ -f $file && ! -L $file && " $(stat -c '%U %G' -- "$file") " == *" $1 "* ]] || continue
        step 'leaves to root only' "${file#"$root"}"
        [[ -n $dry ]] || { chown -- root:root "$file" && chmod -- go= "$file"; }
    done
    shopt -u globstar dotglob nullglob
}

forget_shared() {
    local entry kept=()
    unset -v "shared[$1$'\t'$2]"
    for entry in "${shared_order[@]}"; do
        [[ $entry == "$1"$'\t'"$2" ]] || kept+=("$entry")
    done
    shared_order=("${kept[@]}")
}

# start UNIT FIRST: on the first installation what FIRST says; then a restart of what runs, only where it changed.
start() {
    local unit=$1 first=$2
    if ! systemd_runs; then
        [[ $changes -eq 0 ]] || to_do "No systemd runs here: $unit begins at the next boot, where its user and directories are made, too."
        return
    fi
    [[ -z $dry ]] || return 0
    [[ -z $units_changed && -z $restart && -z $interrupted ]] || systemctl daemon-reload
    if [[ -z ${was[/etc/systemd/system/$unit]:-} ]]; then
        [[ $first != start ]] || attempt start "$unit"
    elif [[ -n $units_changed || -n $restart || -n $interrupted ]]; then
        restart_and_look "$unit"
    fi
}

# An upgraded program that ends at once is told; the unit would try again for ever.
restart_and_look() {
    local ran=''
    ! systemctl is-active --quiet "$1" || ran=yes
    attempt try-restart "$1"
    [[ -n $ran ]] || return 0
    sleep 2
    systemctl is-active --quiet "$1" || {
        error "$1 was restarted and does not run: see journalctl -u $1"
        exit 1
    }
}

attempt() {
    systemctl "$1" "$2" || {
        error "systemctl $1 $2 failed: see journalctl -u $2"
        exit 1
    }
}

stop_units() {
    local unit
    systemd_runs && [[ -z $dry ]] || return 0
    for unit; do
        [[ ! -e /etc/systemd/system/$unit ]] || systemctl disable --now "$unit"
    done
}
