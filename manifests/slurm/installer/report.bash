# shellcheck shell=bash
# What install.sh says: steps as they are done, checks that failed, and what is left to people.

changes=0
finished=
problems=()
todo=()
left=()

bold='' red='' green='' reset=''
if [[ -t 1 && -t 2 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' reset=$'\e[0m'
fi

say() {
    printf '%s\n' "$1"
}

# A change that is made, or would be.
step() {
    changes=$((changes + 1))
    printf '  %s%s%s %s\n' "$green" "$1" "$reset" "$2"
}

# Something that is not done, and why.
note() {
    printf '  %s\n' "$1"
}

error() {
    printf '%sinstall.sh:%s %s\n' "$red" "$reset" "$1" >&2
}

wrong() {
    error "$1"
    printf 'install.sh --help has examples.\n' >&2
    finished=yes
    exit 2
}

refuse() {
    error "$1"
    finished=yes
    exit 3
}

# A check that failed; all are told together, before anything is changed.
problem() {
    local text
    # The same line may come from slurm.conf and from scontrol.
    for text in "${problems[@]}"; do
        [[ $text != "$1" ]] || return 0
    done
    problems+=("$1")
}

checked() {
    local text
    [[ ${#problems[@]} -gt 0 ]] || return 0
    for text in "${problems[@]}"; do
        error "$text"
    done
    error 'nothing was changed'
    finished=yes
    exit 3
}

to_do() {
    todo+=("$1")
}

report_todo() {
    local text
    [[ ${#todo[@]} -gt 0 ]] || return 0
    printf '\n%sLeft to do:%s\n' "$bold" "$reset"
    for text in "${todo[@]}"; do
        printf -- '- %s\n' "$text"
    done
}

report_left() {
    local text
    [[ ${#left[@]} -gt 0 ]] || return 0
    printf '\n%sLeft here:%s\n' "$bold" "$reset"
    for text in "${left[@]}"; do
        printf -- '- %s\n' "$text"
    done
}

on_exit() {
    [[ -z $finished && $1 -ne 0 ]] || return 0
    error "cut off half-way (exit code $1): see above, mend it and run the same command again"
    exit 1
}
