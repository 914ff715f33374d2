# shellcheck shell=bash
# Which paths a role has on this machine: one line each of its kind, the hash of what was put there, and the path.
#
# ROLE.part is of the run that is going on, and is written before a path is made. At the end it becomes ROLE, which
# thus always tells of a run that came to its end. An option that holds for later runs has its value for a hash. Directories and users are in `shared`, as several roles may need them.

readonly records=/opt/dutycycle/installed

declare -A kind=() hash=()
declare -A was=()
order=()
declare -A shared=()
shared_order=()
declare -A others=()

read_record() {
    local file
    load "$root$records/$role" yes
    load "$root$records/$role.part" ''
    if [[ -r $root$records/shared ]]; then
        local what path
        while IFS=$'\t' read -r what path; do
            [[ -n $path ]] || continue
            [[ -n ${shared[$what$'\t'$path]:-} ]] || shared_order+=("$what"$'\t'"$path")
            shared[$what$'\t'$path]=yes
        done < "$root$records/shared"
    fi
    for file in "$root$records"/*; do
        case ${file##*/} in
            shared | "$role" | "$role.part" | '*' | *.writing) ;;
            *) load_other "$file" ;;
        esac
    done
}

# Whether anything was ever begun for this role; also where nobody came to write down for which.
is_known() {
    [[ -e $root$records/$role || -e $root$records/$role.part ]] || [[ -d $root$records && ${#others[@]} -eq 0 ]]
}

load() {
    local what sum path
    [[ -r $1 ]] || return 0
    while IFS=$'\t' read -r what sum path; do
        [[ -n $path ]] || continue
        [[ -n ${kind[$path]:-} ]] || order+=("$path")
        kind[$path]=$what
        hash[$path]=$sum
        [[ -z $2 ]] || was[$path]=$sum
    done < "$1"
}

load_other() {
    local what sum path
    while IFS=$'\t' read -r what sum path; do
        [[ -z $path ]] || others[$path]=$what
    done < "$1"
}

# remember KIND HASH PATH, before it is made.
remember() {
    [[ "${kind[$3]:-} ${hash[$3]:-}" != "$1 $2" ]] || return 0
    [[ -n ${kind[$3]:-} ]] || order+=("$3")
    kind[$3]=$1
    hash[$3]=$2
    [[ -n $dry ]] || save_record "$role.part"
}

# Of options that are not given now, those of the installation: else an upgrade would move what Slurm runs.
recall_options() {
    : "${prolog_dir:=${hash[--prolog-dir]:-/etc/slurm/prolog.d}}"
    : "${epilog_dir:=${hash[--epilog-dir]:-/etc/slurm/epilog.d}}"
}

remember_options() {
    remember option "$prolog_dir" --prolog-dir
    remember option "$epilog_dir" --epilog-dir
    # What is found where it always is will be found again.
    [[ -z $named_slurm_conf ]] || remember option "$named_slurm_conf" --slurm-conf
}

remember_shared() {
    [[ -z ${shared[$1$'\t'$2]:-} && -z $dry ]] || return 0
    shared[$1$'\t'$2]=yes
    shared_order+=("$1"$'\t'"$2")
    save_shared
}

forget() {
    local path kept=()
    for path in "${order[@]}"; do
        [[ $path == "$1" ]] || kept+=("$path")
    done
    order=("${kept[@]}")
    unset -v "kind[$1]" "hash[$1]"
}

save_record() {
    local path file=$root$records/$1
    for path in "${order[@]}"; do
        printf '%s\t%s\t%s\n' "${kind[$path]}" "${hash[$path]}" "$path"
    done > "$file.writing"
    mv -f -- "$file.writing" "$file"
}

save_shared() {
    mkdir -p -- "$root$records"
    printf '%s\n' "${shared_order[@]}" > "$root$records/shared.writing"
    mv -f -- "$root$records/shared.writing" "$root$records/shared"
}

finish_record() {
    [[ -z $dry ]] || return 0
    save_record "$role.part"
    if cmp -s -- "$root$records/$role.part" "$root$records/$role"; then
        rm -f -- "$root$records/$role.part"
    else
        mv -f -- "$root$records/$role.part" "$root$records/$role"
    fi
}
