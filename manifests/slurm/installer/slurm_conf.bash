# shellcheck shell=bash
# Slurm's configuration: read, never written. What it lacks is told to the operator.

prologs=() epilogs=() prolog_flags=''
named_slurm_conf=''

# The one that is named, now, at the installation or by slurmd's own words; else where it usually is.
find_slurm_conf() {
    local file
    if [[ -n $slurm_conf ]]; then
        [[ -r $root$slurm_conf ]] || problem "$root$slurm_conf, given as --slurm-conf, cannot be read"
        named_slurm_conf=$slurm_conf
        return
    fi
    find_slurmd
    for file in "${hash[--slurm-conf]:-}" "${SLURM_CONF:-}" "$slurmd_conf"; do
        if [[ $file == /* && $file != *[$'\n\t']* && -r $root$file && -f $root$file ]]; then
            slurm_conf=$file named_slurm_conf=$file
            return
        fi
    done
    # Of packages and of what is built by hand; the last two: what slurmd of a site without local files has fetched.
    for file in /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf /opt/slurm/etc/slurm.conf /usr/local/etc/slurm.conf \
        /run/slurm/conf/slurm.conf /var/spool/slurmd/conf-cache/slurm.conf; do
        if [[ -r $root$file && -f $root$file ]]; then
            slurm_conf=$file
            return
        fi
    done
}

slurmd_conf='' slurmd_prefix=''

# What the slurmd that runs here was started with: sudo takes SLURM_CONF away, and /opt/slurm/bin is not in our PATH.
find_slurmd() {
    local process words=() index name
    [[ -z $root ]] || return 0
    for process in /proc/[0-9]*; do
        { read -r name < "$process/comm"; } 2>/dev/null || continue
        [[ $name == slurmd ]] || continue
        # Not one of a container, which has files of its own.
        [[ $(readlink -- "$process/ns/mnt") == "$(readlink -- /proc/self/ns/mnt)" ]] || continue
        slurmd_prefix=$(readlink -- "$process/exe") || continue
        slurmd_prefix=${slurmd_prefix%/*/*}
        mapfile -d '' -t words < "$process/cmdline" || continue
        for ((index = 1; index < ${#words[@]}; index++)); do
            case ${words[index]} in
                -f) slurmd_conf=${words[index + 1]:-} ;;
                -f/*) slurmd_conf=${words[index]#-f} ;;
            esac
        done
        [[ -n $slurmd_conf ]] || while IFS= read -r -d '' name; do
            [[ $name != SLURM_CONF=* ]] || slurmd_conf=${name#*=}
        done < "$process/environ" || true
        return 0
    done
}

read_slurm_conf() {
    local line key value
    [[ -r $1 && $2 -lt 8 ]] || return 0
    while IFS= read -r line || [[ -n $line ]]; do
        line=${line%%#*}
        if [[ $line =~ ^[[:blank:]]*([Ii][Nn][Cc][Ll][Uu][Dd][Ee])[[:blank:]]+([^[:blank:]]+) ]]; then
            value=${BASH_REMATCH[2]}
            [[ $value == /* ]] || value=${slurm_conf%/*}/$value
            read_slurm_conf "$root$value" $(($2 + 1))
        elif [[ $line =~ ^[[:blank:]]*([A-Za-z]+)[[:blank:]]*=[[:blank:]]*\"?([^\"[:blank:]]+) ]]; then
            key=${BASH_REMATCH[1],,} value=${BASH_REMATCH[2]}
            case $key in
                prolog) prologs+=("$value") ;;
                epilog) epilogs+=("$value") ;;
                prologflags) prolog_flags=,${value,,}, ;;
            esac
        fi
    done < "$1"
}

# Whether Slurm, told this pattern, runs the script: by itself, or by a site's script that names it or its directory.
runs() {
    local pattern=$1 script=$2
    # shellcheck disable=SC2053 # a pattern
    [[ ${pattern%/*} != "${script%/*}" || ${script##*/} != ${pattern##*/} ]] || return 0
    [[ -f $root$pattern ]] && grep -qF -e "${script##*/}" -e "${script%/*}" -- "$root$pattern"
}

one_runs() {
    local script=$1 pattern
    shift
    for pattern; do
        ! runs "$pattern" "$script" || return 0
    done
    return 1
}

# Told after the files are there: a node whose Prolog= matches nothing is drained at its next job.
report_slurm() {
    local lines=() site=() where=$slurm_conf flags directory
    [[ -z $slurm_conf ]] || read_slurm_conf "$root$slurm_conf" 0
    case $prolog_flags in
        *,alloc,* | *,contain,* | *,x11,*) ;;
        *)
            flags=${prolog_flags#,}
            lines+=("PrologFlags=Alloc${flags:+,${flags%,}}")
            ;;
    esac
    one_runs "$prolog_dir/50-dutycycle.sh" "${prologs[@]}" || lines+=("Prolog=$prolog_dir/*")
    one_runs "$epilog_dir/50-dutycycle.sh" "${epilogs[@]}" || lines+=("Epilog=$epilog_dir/*")
    for directory in "$prolog_dir" "$epilog_dir"; do
        case $(stat -f -c %T -- "$root$directory" 2>/dev/null || true) in
            nfs* | lustre | gpfs | ceph | smb* | cifs | fuseblk | beegfs | panfs | afs | pvfs*)
                to_do "$directory is on a file system that nodes share: to uninstall one node takes its script from all. Install with
  --prolog-dir and --epilog-dir of the node's own, such as /opt/dutycycle/prolog.d and /opt/dutycycle/epilog.d."
                break
                ;;
        esac
    done
    [[ ${#lines[@]} -gt 0 ]] || return 0
    [[ ${lines[*]} != *Prolog=/* ]] || site+=("${prologs[@]}")
    [[ ${lines[*]} != *Epilog=/* ]] || site+=("${epilogs[@]}")
    to_do "In ${where:-slurm.conf (which was not found: --slurm-conf FILE)}, once every GPU node is installed:
$(printf '    %s\n' "${lines[@]}")
  then: scontrol reconfigure${site[*]:+
  What it has now (${site[*]}) would be replaced: move those scripts into the directories, or call
  ours from them.}"
}

# Before scripts of ours go, by an uninstallation or a move: Slurm drains a node whose Prolog= matches no file.
check_slurm_without_ours() {
    local path go='' asked='' said pattern
    [[ $role == node ]] || return 0
    for path in "${order[@]}"; do
        ! goes "$path" || go=$path
    done
    [[ -n $go ]] || return 0
    [[ $mode == install ]] || find_slurm_conf
    if [[ -n $slurm_conf ]]; then
        prologs=() epilogs=()
        read_slurm_conf "$root$slurm_conf" 0
        asked=yes
    fi
    # What runs counts, too, where it can be asked.
    while IFS= read -r said; do
        asked=yes
        [[ ! $said =~ ^Prolog(\[[0-9]+\])?\ +=\ (/.*)$ ]] || prologs+=("${BASH_REMATCH[2]}")
        [[ ! $said =~ ^Epilog(\[[0-9]+\])?\ +=\ (/.*)$ ]] || epilogs+=("${BASH_REMATCH[2]}")
    done < <(ask_slurm)
    [[ -n $asked || -n $force ]] ||
        problem "neither slurm.conf nor scontrol was found here, and without $go Slurm may drain the node: name it by --slurm-conf FILE, or, if no Prolog= needs it, add --force"
    for pattern in "${prologs[@]}"; do
        needs_ours Prolog "$pattern"
    done
    for pattern in "${epilogs[@]}"; do
        needs_ours Epilog "$pattern"
    done
    prologs=() epilogs=()
}

ask_slurm() {
    local scontrol said
    [[ -z $root ]] || return 0
    [[ -z $slurm_conf ]] || export SLURM_CONF=$slurm_conf
    # First that of the slurmd that runs: another one may be of another Slurm.
    for scontrol in "$slurmd_prefix/bin/scontrol" "$(command -v scontrol || true)" /opt/slurm/bin/scontrol; do
        # All or nothing: half an answer would be an answer.
        if [[ -x $scontrol ]] && said=$(timeout 10 "$scontrol" show config 2>/dev/null); then
            printf '%s\n' "$said"
            return 0
        fi
    done
}

# Whether this run takes the file away, which was put there as prolog or epilog.
goes() {
    [[ ${kind[$1]:-} == file && $1 == */50-dutycycle.sh ]] && [[ $mode == uninstall || -z ${planned[$1]:-} ]]
}

needs_ours() {
    local file ours='' other=''
    while IFS= read -r file; do
        if goes "${file#"$root"}"; then ours=$file; else other=$file; fi
    done < <(compgen -G "$root$2" || true)
    [[ -z $ours || -n $other ]] ||
        problem "Slurm still has $1=$2, which only $ours matches: without it Slurm drains the node. Take that line out of ${slurm_conf:-slurm.conf}, run scontrol reconfigure, then this again"
}
