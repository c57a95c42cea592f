#!/usr/bin/env bash
# machine.sh DIRECTORY SCRIPT FILE... starts systemd as the first process of a machine of its own,
# whose file system is a copy of this one's that is kept in DIRECTORY, has it run SCRIPT as root,
# and ends it. The files are in /machine there. Its control groups are below one of its own; nothing
# is changed outside of that.
set -euo pipefail
dir=$(realpath "$1") script=$(realpath "$2")
shift 2
files=()
for file in "$@"; do files+=("$(realpath "$file")"); done
export PATH=$PATH:/usr/sbin:/sbin
mount -t tmpfs tmpfs "$dir"
mkdir "$dir"/{upper,work,root,groups}
mount -t cgroup2 cgroup2 "$dir/groups"
group=$dir/groups/signalbox-test-$$
mkdir "$group"
leave() {
	echo $$ >"$dir/groups/cgroup.procs"
	find "$group" -depth -type d -exec rmdir {} +
}
trap leave EXIT
echo $$ >"$group/cgroup.procs"

mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
cd "$dir/root"
rm -f usr/sbin/policy-rc.d # which keeps packages from starting services
mount -t tmpfs -o mode=755 tmpfs dev
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 ptmx:5:2; do
	IFS=: read -r name major minor <<<"$device"
	mknod -m 666 "dev/$name" c "$major" "$minor"
done
mkdir dev/shm dev/pts
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir machine # systemd empties /tmp
cp "$script" machine/script
cp -t machine "${files[@]}"
touch machine/output "$dir/console" dev/console
mount --bind "$dir/console" dev/console
cat >etc/systemd/system/script.service <<'UNIT'
[Unit]
Wants=systemd-journald.service
After=systemd-journald.service
DefaultDependencies=no
[Service]
Type=oneshot
StandardOutput=append:/machine/output
StandardError=append:/machine/output
ExecStart=/bin/bash /machine/script
ExecStopPost=/bin/sh -c 'echo "$SERVICE_RESULT" >/machine/result; systemctl --force --force poweroff'
UNIT
unshare --mount --net --pid --ipc --uts --cgroup --fork --kill-child bash -euo pipefail -c '
	ip link set lo up
	mount -t proc proc proc
	mount --bind proc/sys proc/sys
	mount -o remount,ro,bind proc/sys
	mount -t sysfs -o ro sysfs sys
	mount -t cgroup2 cgroup2 sys/fs/cgroup
	pivot_root . mnt
	umount -l /mnt
	exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --bounding-set -sys_module,-sys_time,-sys_rawio /lib/systemd/systemd --system --unit=script.service --log-target=journal' || true
cat machine/output
[[ $(cat machine/result) == success ]] || { cat "$dir/console" >&2; exit 1; }
