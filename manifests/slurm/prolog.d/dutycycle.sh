#!/bin/bash -p
# Slurm prolog: writes down whose each GPU of the job is, for the exporter on this node (docs/slurm.md).
#
# Needs bash 4.2 and coreutils; starts one process, whatever the number of GPUs, and one more for each of the site's
# files, where it has any. Never fails a job: what goes wrong is logged, and the exit code is always 0. Settings: the
# file named as first argument, else /etc/dutycycle/prolog.conf.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
unset IFS
umask 022
# Since bash 5.2 a & in a replacement would mean the match.
shopt -u patsub_replacement 2>/dev/null

directory=/run/dutycycle/slurm
map=/etc/dutycycle/gpus.map
order=auto
sharing=auto
nvidia=/proc/driver/nvidia/gpus
boot_id=/proc/sys/kernel/random/boot_id
mountinfo=/proc/self/mountinfo
devices=/dev

log() {
    printf 'dutycycle prolog: %s\n' "$1" >&2
    logger -p daemon.warning -t dutycycle-prolog -- "job ${job:-?}: $1" 2>/dev/null
}

stop() {
    log "$1"
    exit 0
}

# A file of the site's: whoever may write it decides whose the GPUs are and where root writes. Of its mode bash itself
# cannot tell enough.
trusted() {
    local mode
    [[ -f $1 && -O $1 && ! -L $1 ]] && mode=$(stat -c %a -- "$1") && (((8#$mode & 8#022) == 0))
}

# Lines of a name, = and a value, which may be in quotes; read, never run.
a_setting=$'^([a-z_]+)=("([^"$`\\\\]*)"|\'([^\']*)\'|([^[:blank:]"\'$`\\\\#;&|<>()]*))([[:blank:]]+#.*)?$'
read_settings() {
    local line number=0 value
    while read -r line || [[ -n $line ]]; do
        number=$((number + 1))
        [[ -z $line || $line == '#'* ]] && continue
        [[ $line =~ $a_setting ]] || stop "$1 is not used, nor is anything written down: line $number is no setting"
        value=${BASH_REMATCH[3]}${BASH_REMATCH[4]}${BASH_REMATCH[5]}
        case ${BASH_REMATCH[1]}=$value in
            directory=/* | map=/* | nvidia=/* | boot_id=/* | mountinfo=/* | devices=/* | order=auto | order=minor | order=pci | \
                sharing=auto | sharing=yes | sharing=no) printf -v "${BASH_REMATCH[1]}" %s "$value" ;;
            *) stop "$1 is not used, nor is anything written down: there is no ${BASH_REMATCH[1]}=$value" ;;
        esac
    done < "$1"
}

not_ours='it is no plain file, not owned by the user that runs the prolog, or others may write to it'
whole_number='^[0-9]{1,10}$'
a_uuid='^(GPU|MIG)-[0-9A-Za-z-]+$'

# Its length is not the expression's to check: {1,80} would take half a millisecond.
is_uuid() {
    [[ ${#1} -le 84 && $1 =~ $a_uuid ]]
}

job=${SLURM_JOB_ID:-}
user_id=${SLURM_JOB_UID:-}
[[ -n ${SLURM_JOB_GPUS:-} || ${CUDA_VISIBLE_DEVICES:-} == *-* ]] || exit 0
[[ $job =~ $whole_number && $user_id =~ $whole_number ]] || stop 'SLURM_JOB_ID or SLURM_JOB_UID is not a number'
job=$((10#$job))

settings=${1:-/etc/dutycycle/prolog.conf}
if [[ -e $settings || -L $settings ]]; then
    trusted "$settings" || stop "$settings is not used, nor is anything written down: $not_ours"
    read_settings "$settings"
fi

# The Kubernetes pod that slurmd runs in: the kubelet gives its containers files that lie below the pod's uid.
pod_uid=
a_mount='/pods/([0-9A-Za-z-]+)/(etc-hosts|containers/[^[:space:]]+) (/etc/hosts|/dev/termination-log) '
find_pod() {
    local mounts=
    IFS= read -r -d '' mounts 2>/dev/null < "$mountinfo"
    [[ $mounts =~ $a_mount && ${#BASH_REMATCH[1]} -le 64 ]] && pod_uid=${BASH_REMATCH[1]}
}

# Whether the pod has the GPU: the driver may tell of all of the machine's, but a container has device files of its own
# only. Without any, nothing tells.
has_files=
in_pod() {
    local file
    [[ -n $pod_uid ]] || return 0
    if [[ -z $has_files ]]; then
        has_files=no
        for file in "$devices"/nvidia[0-9]*; do
            [[ -e $file ]] && has_files=yes
        done
    fi
    [[ $has_files == no || -e $devices/nvidia$((10#$1)) ]]
}

# The UUIDs of this node's GPUs in the order in which Slurm counts them: of minor numbers, or of PCI addresses.
uuids=()
read_driver() {
    local file first second value uuid minor excluded by_minor=() by_address=()
    for file in "$nvidia"/*/information; do
        [[ -r $file ]] || continue
        uuid='' minor='' excluded=''
        while read -r first second value; do
            case "$first $second" in
                'GPU UUID:') uuid=$value ;;
                'Device Minor:') minor=$value ;;
                'GPU Excluded:') excluded=$value ;;
                # Drivers before 460.
                'Blacklisted: Yes') excluded=Yes ;;
            esac
        done < "$file"
        # An excluded GPU is neither Slurm's nor NVML's.
        [[ $excluded == Yes || ! $minor =~ $whole_number ]] && continue
        in_pod "$minor" || continue
        by_address+=("$uuid")
        by_minor[10#$minor]=$uuid
    done
    if [[ "${by_minor[*]}" == "${by_address[*]}" ]] || ! counts_addresses; then
        uuids=("${by_minor[@]}")
    else
        uuids=("${by_address[@]}")
    fi
}

# Slurm has detected the GPUs through NVML, whose order is that of the addresses, or was told the device files.
counts_addresses() {
    local line detected='' conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
    [[ $order != auto ]] || while read -r line; do
        [[ ${line,,} =~ ^([^#]*[[:blank:]])?autodetect[[:blank:]]*=[[:blank:]]*([a-z]+) ]] && detected+=${BASH_REMATCH[2]}
    done 2>/dev/null < "${conf%/*}/gres.conf"
    [[ $order == pci || $detected == *nvml* ]]
}

# What the site says instead: lines of an index and a UUID; everything after a # is for people.
read_map() {
    local index uuid rest
    while read -r index uuid rest || [[ -n $index ]]; do
        [[ $index =~ $whole_number ]] && is_uuid "$uuid" && uuids[10#$index]=$uuid
    done < "$map"
}

# Into `words`, without a here-string: that is a file in /tmp to an older bash.
split() {
    local rest=$1,
    words=()
    while [[ -n $rest ]]; do
        words+=("${rest%%,*}")
        rest=${rest#*,}
    done
}

# The job's GPUs. Slurm that knows UUIDs (AutoDetect=nvml: MIG instances, and every GPU since 25.11) says so itself;
# else it counts this node's GPUs from 0 in the order of gres.conf, which has to be that of the device files.
gpus=()
find_gpus() {
    local words word index
    split "${CUDA_VISIBLE_DEVICES:-}"
    for word in "${words[@]}"; do
        if is_uuid "$word"; then
            gpus+=("$word")
        else
            gpus=()
            break
        fi
    done
    [[ ${#gpus[@]} -gt 0 ]] && return
    if [[ -e $map || -L $map ]]; then
        # Without it an index would mean something else.
        trusted "$map" || stop "$map is not used, nor is anything written down: $not_ours"
        read_map
    else
        read_driver
    fi
    split "${SLURM_JOB_GPUS:-}"
    for index in "${words[@]}"; do
        if [[ $index =~ $whole_number ]] && is_uuid "${uuids[10#$index]:-}"; then
            # Several shards of a GPU are one GPU.
            [[ " ${gpus[*]} " == *" ${uuids[10#$index]} "* ]] || gpus+=("${uuids[10#$index]}")
        else
            log "no UUID is known for GPU $index (persistence mode off, or $map wrong?)"
        fi
    done
}

# A JSON string of what may come from a user: other characters than printable ASCII become ?, 256 are kept.
text() {
    local value=${1:0:256}
    value=${value//[!\ -~]/?}
    value=${value//\\/\\\\}
    value=${value//\"/\\\"}
    printf -v "$2" '"%s"' "$value"
}

# Optional members of the object, each with its comma.
members=
string_member() {
    local quoted
    [[ -n $2 ]] || return
    text "$2" quoted
    members+=", \"$1\": $quoted"
}
number_member() {
    [[ $2 =~ $whole_number ]] && members+=", \"$1\": $((10#$2))"
}

# Whether jobs may share GPUs here: slurm.conf has shards or MPS among its GresTypes, or cannot be read.
shared() {
    case $sharing in
        yes) return 0 ;;
        no) return 1 ;;
    esac
    local line types=
    [[ -r ${SLURM_CONF:-/etc/slurm/slurm.conf} ]] || return 0
    while read -r line; do
        [[ ${line,,} =~ ^grestypes[[:blank:]]*=(.*) ]] && types+=,${BASH_REMATCH[1]}
    done < "${SLURM_CONF:-/etc/slurm/slurm.conf}"
    [[ -z $types || $types == *shard* || $types == *mps* ]]
}

# Files of jobs that cannot hold these GPUs any more: from before the node was booted, or, where a GPU has one job at a
# time, of any other job: its epilog never came to an end.
superseded=()
find_superseded() {
    local uuid file content exclusive=
    for uuid in "${gpus[@]}"; do
        for file in "$directory/$uuid".*json; do
            [[ -f $file && $file != "$directory/$uuid.$job.json" ]] || continue
            [[ -n $exclusive ]] || if shared; then exclusive=no; else exclusive=yes; fi
            content=
            IFS= read -r content < "$file"
            [[ $exclusive == yes || ( -n $boot && $content == *'"boot_id": "'* && $content != *"$boot"* ) ]] &&
                superseded+=("$file")
        done
    done
}

find_pod
find_gpus
[[ ${#gpus[@]} -gt 0 ]] || stop "none of the job's GPUs could be identified"

[[ -d $directory ]] || mkdir -p -- "$directory" || stop "$directory cannot be made"
[[ -O $directory && ! -L $directory ]] || stop "$directory is a link, or not owned by the user that runs the prolog"
[[ -d $directory/.new ]] || mkdir -p -- "$directory/.new" || stop "$directory cannot be written to"

boot=
IFS= read -r boot 2>/dev/null < "$boot_id"
[[ ${#boot} -eq 36 && $boot =~ ^[0-9a-f-]+$ ]] || boot=
printf -v now '%(%s)T' -1
string_member boot_id "$boot"
string_member pod_uid "$pod_uid"
[[ ${SLURM_JOB_SLUID:-} =~ ^s[0-9A-Z]{13}$ ]] && string_member sluid "$SLURM_JOB_SLUID"
if [[ -n ${SLURM_ARRAY_JOB_ID:-} && -n ${SLURM_ARRAY_TASK_ID:-} ]]; then
    number_member array_job_id "$SLURM_ARRAY_JOB_ID"
    number_member array_task_id "$SLURM_ARRAY_TASK_ID"
fi
number_member het_job_id "${SLURM_HET_JOB_ID:-}"
number_member restarts "${SLURM_JOB_RESTART_COUNT:-}"
string_member user "${SLURM_JOB_USER:-}"
string_member account "${SLURM_JOB_ACCOUNT:-}"
string_member partition "${SLURM_JOB_PARTITION:-}"
string_member nodelist "${SLURM_JOB_NODELIST:-${SLURM_NODELIST:-}}"

find_superseded
written=()
for uuid in "${gpus[@]}"; do
    file=$directory/.new/$uuid.$job.json
    if printf '{"job_id": %d, "uid": %d, "start": %d%s}\n' "$job" "$((10#$user_id))" "$now" "$members" > "$file"; then
        written+=("$file")
    fi
done
[[ ${#written[@]} -eq ${#gpus[@]} ]] || log "not every file could be written to $directory"
if [[ ${#written[@]} -gt 0 ]]; then
    mv -f -- "${written[@]}" "$directory/" || log "files could not be moved to $directory"
fi
[[ ${#superseded[@]} -eq 0 ]] || rm -f -- "${superseded[@]}"
exit 0
