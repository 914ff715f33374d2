# shellcheck shell=bash
# Slurm's configuration: read, never written. What it lacks is told to the operator.

prologs=() epilogs=() prolog_flags=''

find_slurm_conf() {
    local file
    if [[ -n $slurm_conf ]]; then
        [[ -r $root$slurm_conf ]] || problem "$root$slurm_conf, given as --slurm-conf, cannot be read"
        return
    fi
    # The last two: what slurmd of a site without local files has fetched.
    for file in ${SLURM_CONF:+"$SLURM_CONF"} /etc/slurm/slurm.conf /run/slurm/conf/slurm.conf /var/spool/slurmd/conf-cache/slurm.conf; do
        if [[ -r $root$file && -f $root$file ]]; then
            slurm_conf=$file
            return
        fi
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
    local lines=() site=() where=$slurm_conf flags
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
    [[ ${#lines[@]} -gt 0 ]] || return 0
    [[ ${lines[*]} != *Prolog=/* ]] || site+=("${prologs[@]}")
    [[ ${lines[*]} != *Epilog=/* ]] || site+=("${epilogs[@]}")
    to_do "In ${where:-slurm.conf (which was not found: --slurm-conf FILE)}, once every GPU node is installed:
$(printf '    %s\n' "${lines[@]}")
  then: scontrol reconfigure${site[*]:+
  What it has now (${site[*]}) would be replaced: move those scripts into the directories, or call
  ours from them.}"
}

# Before the scripts go: Slurm drains a node whose Prolog= matches no file.
check_slurm_without_us() {
    find_slurm_conf
    local said pattern
    [[ -z $slurm_conf ]] || read_slurm_conf "$root$slurm_conf" 0
    if [[ -z $root ]] && command -v scontrol >/dev/null; then
        # What runs counts, too, where it can be asked.
        while IFS= read -r said; do
            [[ $said =~ ^Prolog(\[[0-9]+\])?\ +=\ (/.*)$ ]] && prologs+=("${BASH_REMATCH[2]}")
            [[ $said =~ ^Epilog(\[[0-9]+\])?\ +=\ (/.*)$ ]] && epilogs+=("${BASH_REMATCH[2]}")
        done < <(SLURM_CONF=${slurm_conf:-${SLURM_CONF:-/etc/slurm/slurm.conf}} timeout 10 scontrol show config 2>/dev/null || true)
    fi
    for pattern in "${prologs[@]}"; do
        needs_ours Prolog "$pattern"
    done
    for pattern in "${epilogs[@]}"; do
        needs_ours Epilog "$pattern"
    done
}

needs_ours() {
    local file ours='' other=''
    while IFS= read -r file; do
        if [[ ${kind[${file#"$root"}]:-} == file ]]; then ours=$file; else other=$file; fi
    done < <(compgen -G "$root$2" || true)
    [[ -z $ours || -n $other ]] ||
        problem "Slurm still has $1=$2, which only $ours matches: without it Slurm drains the node. Take that line out of ${slurm_conf:-slurm.conf}, run scontrol reconfigure, then this again"
}
