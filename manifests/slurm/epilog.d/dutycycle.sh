#!/bin/bash -p
# Slurm epilog: the job's GPUs are nobody's any more (docs/slurm.md). Needs bash 4.2 and coreutils. Always exits with
# 0: a failing epilog drains the node. Settings as in the prolog.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
unset IFS

directory=/run/dutycycle/slurm

log() {
    printf 'dutycycle epilog: job %s: %s\n' "$job" "$1" >&2
    logger -p daemon.warning -t dutycycle-epilog -- "job $job: $1" 2>/dev/null
}

# Also where no GPU is named: the files tell which there were.
job=${SLURM_JOB_ID:-}
[[ $job =~ ^[0-9]{1,10}$ ]] || exit 0
job=$((10#$job))

# See the prolog. Only one of the settings counts here.
a_directory=$'^directory=("(/[^"$`\\\\]*)"|\'(/[^\']*)\'|(/[^[:blank:]"\'$`\\\\#;&|<>()]*))([[:blank:]]+#.*)?$'
settings=${1:-/etc/dutycycle/prolog.conf}
if [[ -f $settings && -O $settings && ! -L $settings ]] && mode=$(stat -c %a -- "$settings") &&
    (((8#$mode & 8#022) == 0)); then
    while read -r line || [[ -n $line ]]; do
        [[ $line =~ $a_directory ]] && directory=${BASH_REMATCH[2]}${BASH_REMATCH[3]}${BASH_REMATCH[4]}
    done < "$settings"
elif [[ -e $settings || -L $settings ]]; then
    log "$settings is not used: others could have written it"
fi

files=()
for file in "$directory"/*."$job".json; do
    [[ -e $file || -L $file ]] && files+=("$file")
done
if [[ ${#files[@]} -gt 0 ]] && ! rm -f -- "${files[@]}"; then
    log "files could not be removed from $directory"
fi
exit 0
