# shellcheck shell=bash
# Files, links and directories of a role: put where they belong, replaced as a whole, and removed.

declare -A planned=()

sum() {
    local line
    line=$(sha256sum < "$1") && printf '%s' "${line%% *}"
}

# The hash of what is at a path; nothing where there is none.
sum_of() {
    [[ ! -f $1 ]] || sum "$1"
}

# What a role is made of: kind (file, conf), mode, source, target; of links (enabled, link) what they say.
planning() {
    plan+=("$1"$'\t'"$2"$'\t'"$3"$'\t'"$4")
    planned[$4]=yes
}

planning_tree() {
    planned[$1]=yes
}

check_targets() {
    local entry what mode source target dest parent
    for entry in "${plan[@]}"; do
        IFS=$'\t' read -r what mode source target <<< "$entry"
        dest=$root$target
        parent=${dest%/*}
        while [[ -n $parent && ! -e $parent && ! -L $parent ]]; do
            parent=${parent%/*}
        done
        [[ -z $parent || -d $parent ]] || problem "$parent is no directory, and $dest is to be below it: move it away"
        case $what in
            file | conf)
                [[ -r $source ]] || problem "$source is missing: take the whole directory $here"
                if [[ -L $dest || ( -e $dest && ! -f $dest ) ]]; then
                    problem "$dest is no plain file: move it away"
                elif [[ $what == file && -e $dest && -z ${kind[$target]:-}${others[$target]:-} ]] && ! cmp -s -- "$source" "$dest"; then
                    problem "$dest is there already and is not from this installer: move it away"
                fi
                ;;
            *)
                [[ -L $dest || ! -e $dest ]] || problem "$dest is there already and is not from this installer: move it away"
                ;;
        esac
    done
}

make_parents() {
    local dir=${1%/*} missing=()
    while [[ -n $dir && ! -d $root$dir ]]; do
        missing=("$dir" "${missing[@]}")
        dir=${dir%/*}
    done
    for dir in "${missing[@]}"; do
        remember_shared dir "$dir"
        # On a file system that nodes share another one may be faster.
        mkdir -p -- "$root$dir"
    done
}

# The directory of the records, which tell of every other one.
make_records() {
    [[ -z $dry && ! -d $root$records ]] || return 0
    local dir=$records missing=()
    while [[ -n $dir && ! -d $root$dir ]]; do
        missing=("$dir" "${missing[@]}")
        dir=${dir%/*}
    done
    for dir in "${missing[@]}"; do
        shared[dir$'\t'$dir]=yes
        shared_order+=("dir"$'\t'"$dir")
    done
    save_shared
}

# temporary PATH: where it is written before it gets its name; one of this machine's, as nodes may share a directory.
# The name begins with a dot: Slurm's pattern does not match it.
temporary() {
    printf '%s' "${1%/*}/.${1##*/}.dutycycle.${HOSTNAME//[^A-Za-z0-9.-]/_}"
}

# By a rename, so that nobody ever reads half a file.
write_file() {
    local source=$1 dest=$root$2 mode=$3 temporary
    make_parents "$2"
    temporary=$(temporary "$dest")
    install -m "$mode" -- "$source" "$temporary"
    mv -fT -- "$temporary" "$dest"
}

place_all() {
    local what mode source target entry
    for entry in "${plan[@]}"; do
        IFS=$'\t' read -r what mode source target <<< "$entry"
        case $what in
            file) place_file "$mode" "$source" "$target" ;;
            conf) place_conf "$mode" "$source" "$target" ;;
            link) place_link "$source" "$target" ;;
            enabled) place_enabled "$source" "$target" ;;
        esac
    done
}

place_file() {
    local mode=$1 source=$2 target=$3 new now
    new=$(sum "$source")
    now=$(sum_of "$root$target")
    if [[ $now == "$new" && $(stat -c 0%a -- "$root$target") == "$mode" ]]; then
        remember file "$new" "$target"
        return
    fi
    step "$([[ -n $now ]] && echo replaces || echo writes)" "$target"
    [[ $target != *.service && $target != *.timer ]] || units_changed=yes
    remember file "$new" "$target"
    [[ -n $dry ]] || write_file "$source" "$target" "$mode"
}

# Of what may be removed by --purge: its kind, or that it was there before us, and is to stay.
whose_is() {
    if [[ -n ${kind[$1]:-} ]]; then
        printf '%s' "${kind[$1]}"
    elif [[ -e $root$1 ]]; then
        printf found
    else
        printf '%s' "$2"
    fi
}

# A file that is the operator's: what they wrote stays, and what they removed stays away.
place_conf() {
    local mode=$1 source=$2 target=$3 new now before whose
    new=$(sum "$source")
    now=$(sum_of "$root$target")
    before=${was[$target]:-}
    whose=$(whose_is "$target" conf)
    if [[ $now == "$new" || ( -n $before && $before == "$new" ) ]]; then
        remember "$whose" "$new" "$target"
    elif [[ -z $now && -n $before ]]; then
        note "leaves $target away: it was removed here"
        remember "$whose" "$new" "$target"
    elif [[ -z $now || $now == "$before" ]]; then
        step "$([[ -n $now ]] && echo replaces || echo writes)" "$target"
        remember "$whose" "$new" "$target"
        [[ -n $dry ]] || write_file "$source" "$target" "$mode"
    else
        step writes "$target.new: $target was changed here and is left as it is"
        remember new "$new" "$target.new"
        [[ -n $dry ]] || write_file "$source" "$target.new" "$mode"
        remember "$whose" "$new" "$target"
    fi
}

place_link() {
    local to=$1 target=$2
    remember link - "$target"
    [[ $(readlink -- "$root$target" || true) != "$to" ]] || return 0
    step links "$target"
    restart=yes # what runs is of another environment than the one that the link leads to now
    [[ -n $dry ]] || write_link "$to" "$target"
}

# Whether a unit begins at boot: as the operator says, once it was installed.
place_enabled() {
    local to=$1 target=$2
    if [[ -L $root$target ]]; then
        remember enabled - "$target"
    elif [[ -n ${was[$target]:-} ]]; then
        note "leaves ${target##*/} disabled, as it is here"
    else
        step enables "${target##*/}"
        remember enabled - "$target"
        [[ -n $dry ]] || write_link "$to" "$target"
    fi
}

write_link() {
    local to=$1 dest=$root$2 temporary
    make_parents "$2"
    temporary=$(temporary "$dest")
    ln -sfnT -- "$to" "$temporary"
    mv -fT -- "$temporary" "$dest"
}

# What an earlier version had and this one has not.
remove_stale() {
    local path
    for path in "${order[@]}"; do
        case ${kind[$path]} in
            file | link | enabled | tree) [[ -n ${planned[$path]:-} ]] || remove_path "$path" ;;
        esac
    done
}

remove_path() {
    local path=$1 dest=$root$1
    if [[ -z ${others[$path]:-} ]]; then
        if [[ -e $dest || -L $dest ]]; then
            step removes "$path"
        fi
        [[ -n $dry ]] || rm -rf -- "$dest" "$(temporary "$dest")"
    fi
    [[ -n $dry ]] || forget "$path"
}

remove_all() {
    local path index paths=("${order[@]}")
    for ((index = ${#paths[@]} - 1; index >= 0; index--)); do
        path=${paths[index]}
        case ${kind[$path]} in
            conf | state)
                if [[ -n $purge ]]; then
                    remove_path "$path"
                elif [[ -e $root$path ]]; then
                    left+=("$root$path")
                else
                    [[ -n $dry ]] || forget "$path"
                fi
                ;;
            user) ;;
            found)
                [[ ! -e $root$path ]] || left+=("$root$path, which was here before the installation")
                [[ -n $dry ]] || forget "$path"
                ;;
            option) [[ -n $dry ]] || forget "$path" ;;
            *) remove_path "$path" ;;
        esac
    done
    remove_users
    for path in "$root$unit_directory"/dutycycle-*.d; do
        [[ ! -d $path || -n ${others[${path:${#root}:-2}]:-} ]] || left+=("$path, which systemctl edit made")
    done
    [[ -n $dry ]] || remove_record
}

remove_record() {
    local dir directories=() kept=() entry
    if [[ ${#order[@]} -gt 0 ]]; then
        save_record "$role"
    else
        rm -f -- "$root$records/$role"
    fi
    rm -f -- "$root$records/$role.part" "$root$records"/*.writing
    for entry in "${shared_order[@]}"; do
        [[ $entry != dir$'\t'* ]] || directories+=("${entry#*$'\t'}")
    done
    # The deepest first.
    [[ ${#directories[@]} -eq 0 ]] || mapfile -t directories < <(printf '%s\n' "${directories[@]}" | sort -r)
    for dir in "${directories[@]}"; do
        [[ $records == "$dir"* ]] || rmdir -- "$root$dir" 2>/dev/null || true
    done
    for entry in "${shared_order[@]}"; do
        [[ $entry == dir$'\t'* && ! -d $root${entry#*$'\t'} ]] || kept+=("$entry")
    done
    shared_order=("${kept[@]}")
    if [[ ${#order[@]} -gt 0 || ${#others[@]} -gt 0 ]]; then
        save_shared
        return
    fi
    rm -f -- "$root$records/shared"
    for dir in "$records" "${records%/*}" "${directories[@]}"; do
        rmdir -- "$root$dir" 2>/dev/null || true
    done
    [[ ! -d $root/etc/dutycycle ]] || left+=("$root/etc/dutycycle, which has files that are not from this installer")
}
