# shellcheck shell=bash
# What each role needs, what it is made of, and in which order.

readonly unit_directory=/etc/systemd/system
interrupted=''

check_node() {
    check_python
    check_wheels exporter
    find_slurm_conf
    [[ -z $root ]] || return 0
    ldconfig -p 2>/dev/null | grep -qF libnvidia-ml.so.1 ||
        to_do "There is no libnvidia-ml.so.1 here: install NVIDIA's driver. The exporter waits for it."
    compgen -G '/dev/nvidia[0-9]*' >/dev/null ||
        to_do 'There are no /dev/nvidia* here: nvidia-persistenced makes them. The exporter waits for them.'
}

check_alerter() {
    check_python
    check_wheels alerter
}

check_discovery() {
    local found=''
    command -v sinfo >/dev/null || found=no
    [[ -n $root || -z $found ]] ||
        to_do "There is no sinfo in $PATH: install Slurm's commands, or put its directory into /etc/dutycycle/slurm-sd.env (PATH=...)."
    [[ -n $root ]] || /usr/bin/python3 -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
        problem '/usr/bin/python3 is needed (3.9 or newer)'
}

plan_node() {
    planning file 0644 "$here/systemd/sysusers.conf" /usr/lib/sysusers.d/dutycycle.conf
    planning file 0644 "$here/systemd/tmpfiles.conf" /usr/lib/tmpfiles.d/dutycycle.conf
    planning conf 0644 "$here/etc/exporter.env" /etc/dutycycle/exporter.env
    planning conf 0644 "$here/etc/prolog.conf" /etc/dutycycle/prolog.conf
    plan_program exporter dutycycle-exporter
    planning file 0644 "$here/systemd/dutycycle-exporter.service" $unit_directory/dutycycle-exporter.service
    planning enabled - ../dutycycle-exporter.service $unit_directory/multi-user.target.wants/dutycycle-exporter.service
    planning file 0755 "$here/epilog.d/dutycycle.sh" "$epilog_dir/50-dutycycle.sh"
    planning file 0755 "$here/prolog.d/dutycycle.sh" "$prolog_dir/50-dutycycle.sh"
}

plan_alerter() {
    planning file 0644 "$here/systemd/sysusers-alerter.conf" /usr/lib/sysusers.d/dutycycle-alerter.conf
    planning file 0644 "$here/systemd/tmpfiles-alerter.conf" /usr/lib/tmpfiles.d/dutycycle-alerter.conf
    planning conf 0640 "$here/etc/config.yaml" /etc/dutycycle/config.yaml
    planning conf 0600 "$here/etc/alerter.env" /etc/dutycycle/alerter.env
    plan_program alerter dutycycle
    keep_previous dutycycle
    planning file 0755 "$here/dutycycle-alerter" /opt/dutycycle/bin/dutycycle-alerter
    planning file 0644 "$here/systemd/dutycycle-alerter.service" $unit_directory/dutycycle-alerter.service
    planning enabled - ../dutycycle-alerter.service $unit_directory/multi-user.target.wants/dutycycle-alerter.service
}

plan_discovery() {
    planning file 0644 "$here/systemd/sysusers.conf" /usr/lib/sysusers.d/dutycycle.conf
    planning conf 0644 "$here/etc/slurm-sd.env" /etc/dutycycle/slurm-sd.env
    planning file 0755 "$here/prometheus-sd" /opt/dutycycle/bin/dutycycle-slurm-sd
    planning file 0644 "$here/systemd/dutycycle-slurm-sd.service" $unit_directory/dutycycle-slurm-sd.service
    planning file 0644 "$here/systemd/dutycycle-slurm-sd.timer" $unit_directory/dutycycle-slurm-sd.timer
    planning enabled - ../dutycycle-slurm-sd.timer $unit_directory/timers.target.wants/dutycycle-slurm-sd.timer
}

begin() {
    make_records
    [[ ! -e $root$records/$role.part ]] || interrupted=yes
    [[ -n $dry ]] || save_record "$role.part"
}

install_node() {
    begin
    remember_options
    build_program exporter
    place_all
    remember runtime - /run/dutycycle
    make_user dutycycle dutycycle.conf
    make_directories dutycycle.conf
}

install_alerter() {
    begin
    # Before anything of ours is made below it.
    remember "$(whose_is /var/lib/dutycycle state)" - /var/lib/dutycycle
    build_program alerter
    check_configuration
    place_all
    remember runtime - /var/cache/dutycycle
    make_user dutycycle-alerter dutycycle-alerter.conf
    make_directories dutycycle-alerter.conf
}

install_discovery() {
    begin
    place_all
    remember runtime - /var/lib/dutycycle-slurm-sd
    make_user dutycycle dutycycle.conf
}

start_node() {
    start dutycycle-exporter.service start
    report_slurm
}

# Not begun by the first installation: its configuration is to be written before.
start_alerter() {
    start dutycycle-alerter.service ''
    if [[ -z ${was[$unit_directory/dutycycle-alerter.service]:-} && -z $dry ]]; then
        to_do "Write /etc/dutycycle/config.yaml; check it: /opt/dutycycle/bin/dutycycle-alerter config /etc/dutycycle/config.yaml
  Then: systemctl start dutycycle-alerter"
    fi
}

start_discovery() {
    start dutycycle-slurm-sd.timer start
}

stop_role() {
    case $role in
        node) stop_units dutycycle-exporter.service ;;
        alerter) stop_units dutycycle-alerter.service ;;
        discovery) stop_units dutycycle-slurm-sd.timer dutycycle-slurm-sd.service ;;
    esac
    units_changed=yes
}
