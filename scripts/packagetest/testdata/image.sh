#!/usr/bin/env bash
# image.sh ROOT USER DATA COMMAND... runs the command of an image on its file system, read-only
# but for the volume, as its user, until /healthz answers and the health check succeeds. The
# environment is that of the image. It runs in namespace.sh.
set -euo pipefail
root=$1 user=$2 data=$3
shift 3
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t tmpfs -o "mode=0700,uid=${user%:*},gid=${user#*:}" tmpfs "$root$data"
chroot --userspec="$user" --groups= "$root" "$@" &
pid=$!
tries=0
until curl -sf "http://127.0.0.1:8080/healthz"; do
	kill -0 "$pid" 2>/dev/null && ((tries++ < 600)) || { echo "image.sh: the service does not run" >&2; exit 1; }
	sleep 0.2
done
until chroot --userspec="$user" --groups= "$root" "$1" healthcheck; do
	((tries++ < 600)) || { echo "image.sh: the health check fails" >&2; exit 1; }
	sleep 0.2
done
grep -E '^(Uid|CapEff)' "/proc/$pid/status"
if chroot --userspec="$user" --groups= "$root" "$1" serve --data_dir /elsewhere 2>/dev/null; then
	echo "image.sh: the file system is not read-only" >&2
	exit 1
fi
kill -TERM "$pid"
wait "$pid"
