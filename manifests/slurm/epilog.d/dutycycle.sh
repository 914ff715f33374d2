#!/bin/bash -p
# Slurm epilog: the job's GPUs are nobody's any more (docs/slurm.md). Needs bash 4.2 and rm. Always exits with 0: a
# failing epilog drains the node. Settings as in the prolog.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
unset IFS

directory=/run/dutycycle/slurm

settings=${1:-/etc/dutycycle/prolog.conf}
# shellcheck source=/dev/null
[[ -f $settings && -O $settings && ! -L $settings ]] && . "$settings"

# Also where no GPU is named: the files tell which there were.
job=${SLURM_JOB_ID:-}
[[ $job =~ ^[0-9]{1,10}$ ]] || exit 0
job=$((10#$job))
files=()
for file in "$directory"/*."$job".json; do
    [[ -e $file || -L $file ]] && files+=("$file")
done
if [[ ${#files[@]} -gt 0 ]] && ! rm -f -- "${files[@]}"; then
    printf 'dutycycle epilog: files of job %s could not be removed from %s\n' "$job" "$directory" >&2
    logger -p daemon.warning -t dutycycle-epilog -- "job $job: files could not be removed from $directory" 2>/dev/null
fi
exit 0
