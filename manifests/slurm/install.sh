#!/bin/bash
# Installs Dutycycle on a Slurm site's machines, without any package index; run again, it upgrades (docs/install-slurm.md).
#
# Needs bash 4.4, coreutils and systemd's own programs. Every path that it makes is written down before it is made, so
# that a run that is cut off can be run again, or undone.
set -euo pipefail

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
umask 022

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
readonly here
# shellcheck source-path=SCRIPTDIR source=installer/report.bash
. "$here/installer/report.bash"
# shellcheck source-path=SCRIPTDIR source=installer/record.bash
. "$here/installer/record.bash"
# shellcheck source-path=SCRIPTDIR source=installer/files.bash
. "$here/installer/files.bash"
# shellcheck source-path=SCRIPTDIR source=installer/program.bash
. "$here/installer/program.bash"
# shellcheck source-path=SCRIPTDIR source=installer/slurm_conf.bash
. "$here/installer/slurm_conf.bash"
# shellcheck source-path=SCRIPTDIR source=installer/service.bash
. "$here/installer/service.bash"
# shellcheck source-path=SCRIPTDIR source=installer/roles.bash
. "$here/installer/roles.bash"

usage() {
    cat <<'TEXT'
Usage: install.sh ROLE [OPTIONS]
       install.sh ROLE --uninstall [--purge] [OPTIONS]

Roles:
  node        on every GPU node: the exporter, Slurm's prolog and epilog
  alerter     on one machine: rules, incidents, notifications, the page
  discovery   where Prometheus runs: the nodes as its targets, from sinfo

Options:
  --wheels DIR        what `make wheels` gathered (node, alerter) [build/wheels of this checkout]
  --python PROGRAM    Python 3.11 or newer that the programs run by [/usr/bin/python3, or the first that is new enough]
  --slurm-conf FILE   Slurm's configuration, which is read and never written [$SLURM_CONF, else /etc/slurm/slurm.conf]
  --prolog-dir DIR    where the prolog goes (node) [/etc/slurm/prolog.d]
  --epilog-dir DIR    where the epilog goes (node) [/etc/slurm/epilog.d]
                      What these three said at the installation holds until they are given again.
  --root DIR          install into an image below DIR; nothing is started, and no user is made
  --dry-run           say what would be done, and change nothing
  --uninstall         remove the role; configuration, store and users stay
  --purge             with --uninstall: those, too
  --force             take the prolog away even where Slurm's configuration is not found (node)
  -h, --help          this text

Examples:
  install.sh node --wheels /shared/dutycycle/wheels
  install.sh alerter --dry-run
  install.sh node --root /srv/images/gpu-node --python /usr/bin/python3.12
  install.sh node --uninstall --purge

Exit codes: 0 all is as it should be; 1 cut off half-way, run it again; 2 wrong arguments; 3 a check failed and nothing
was changed.
TEXT
}

role='' root='' wheels=$here/../../build/wheels python='' slurm_conf='' dry='' mode=install purge='' force=''
prolog_dir='' epilog_dir=''

absolute() {
    [[ $2 == /* && $2 != *[$'\n\t']* ]] || wrong "$1 is to be an absolute path, and is $2"
}

arguments() {
    local name
    while [[ $# -gt 0 ]]; do
        name=$1
        case $name in
            --*=*)
                set -- "${name%%=*}" "${name#*=}" "${@:2}"
                name=$1
                ;;
        esac
        case $name in
            --wheels | --python | --slurm-conf | --prolog-dir | --epilog-dir | --root)
                [[ $# -ge 2 && -n $2 ]] || wrong "$name needs a value"
                ;;
        esac
        case $name in
            --wheels) wheels=$2 && shift ;;
            --python) python=$2 && shift ;;
            --slurm-conf) absolute "$1" "$2" && slurm_conf=$2 && shift ;;
            --prolog-dir) absolute "$1" "$2" && prolog_dir=${2%/} && shift ;;
            --epilog-dir) absolute "$1" "$2" && epilog_dir=${2%/} && shift ;;
            --root) root=$2 && shift ;;
            --dry-run) dry=yes ;;
            --uninstall) mode=uninstall ;;
            --purge) purge=yes ;;
            --force) force=yes ;;
            -h | --help) usage && exit 0 ;;
            node | alerter | discovery)
                [[ -z $role ]] || wrong "one role at a time: $role, or $name"
                role=$name
                ;;
            *) wrong "there is no $name" ;;
        esac
        shift
    done
    [[ -n $role ]] || wrong 'say which role: node, alerter or discovery'
    [[ -z $purge || $mode == uninstall ]] || wrong '--purge goes with --uninstall'
    if [[ -n $root ]]; then
        [[ -d $root ]] || refuse "$root, given as --root, is no directory: make it"
        root=$(cd -- "$root" && pwd -P)
        [[ $root != / ]] || root=
    fi
}

check_rights() {
    [[ -n $root || $EUID -eq 0 ]] || refuse "this is for root: sudo $0 $role (or --root DIR, to fill an image)"
    exec 9<"${root:-/}"
    flock -n 9 || refuse "another run of install.sh works on ${root:-this machine}: wait for it"
}

install_role() {
    read_record
    recall_options
    "check_$role"
    checked
    plan=()
    "plan_$role"
    check_targets
    check_slurm_without_ours
    checked
    "install_$role"
    "start_$role"
    # Not before what runs has let go of it.
    remove_stale
    finish_record
    if [[ $changes -eq 0 ]]; then
        say "Nothing to do: $role is installed, and as it should be."
    elif [[ -n $dry ]]; then
        say "Nothing was changed: this was --dry-run."
    else
        say "Installed: $role. Running this again is safe."
        [[ $EUID -eq 0 ]] ||
            to_do "All of it belongs to $(id -un): pack $root with root as the owner (tar --owner=0 --group=0), as root's slurmd and systemd run it."
    fi
    report_todo
}

uninstall_role() {
    read_record
    if ! is_known; then
        say "Nothing to do: nothing of the role $role is installed${root:+ in $root}."
        return
    fi
    recall_options
    check_slurm_without_ours
    checked
    stop_role
    remove_all
    [[ -n $dry ]] || ! systemd_runs || systemctl daemon-reload
    if [[ -n $dry ]]; then
        say "Nothing was changed: this was --dry-run."
    else
        say "Uninstalled: $role."
    fi
    report_left
    report_todo
}

main() {
    arguments "$@"
    check_rights
    trap 'on_exit $?' EXIT
    "${mode}_role"
    finished=yes
}

main "$@"
