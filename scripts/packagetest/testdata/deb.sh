#!/usr/bin/env bash
# deb.sh OLD NEW DIRECTORY installs the package OLD with dpkg, upgrades it to NEW, removes
# it and purges it, in a copy of this machine's file system that is kept in DIRECTORY.
# Nothing is changed outside of that. It runs in namespace.sh.
set -euo pipefail
old=$1 new=$2 dir=$3
fail() {
	printf 'deb.sh: %s\n' "$*" >&2
	exit 1
}

mount -t tmpfs tmpfs "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
root=$dir/root
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
cp "$old" "$root/tmp/old.deb"
cp "$new" "$root/tmp/new.deb"

inside=(env -i DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root")
in_root() { "${inside[@]}" "$@"; }
dpkg() { in_root dpkg "$@"; }
is() { # DESCRIPTION GOT WANT
	[[ $2 == "$3" ]] || fail "$1: got '$2', want '$3'"
}
config=/etc/signalbox/signalbox.yaml
data=/var/lib/signalbox

# serves runs the service as the unit does, until it is ready, and stops it.
serves() {
	local pid tries=0
	"${inside[@]}" setpriv --reuid=signalbox --regid=signalbox --init-groups --no-new-privs --bounding-set=-all \
		signalbox serve --config "$config" >"$root/tmp/log" 2>&1 &
	pid=$!
	until in_root signalbox healthcheck --config "$config" 2>/dev/null; do
		kill -0 "$pid" 2>/dev/null && ((tries++ < 600)) || { cat "$root/tmp/log" >&2; fail "the service does not run"; }
		sleep 0.2
	done
	kill -TERM "$pid"
	wait "$pid" || fail "the service ended with $?"
}

echo "== installed"
dpkg -i /tmp/old.deb
is "user" "$(in_root getent passwd signalbox | cut -d: -f6,7)" "$data:/usr/sbin/nologin"
is "$config" "$(in_root stat -c '%U:%G %a' "$config")" "root:signalbox 640"
is "$data" "$(in_root stat -c '%U:%G %a' "$data")" "signalbox:signalbox 700"
is "config check" "$(in_root signalbox config check --config "$config")" "the configuration is valid"
is "unit" "$(in_root systemd-analyze --no-pager verify --man=no signalbox.service 2>&1)" ""
serves
credentials=$(in_root sha256sum "$data/initial-credentials")
echo "# the administrator's own line" >>"$root$config"

echo "== upgraded"
dpkg -i /tmp/new.deb
is "version" "$(in_root dpkg-query -W -f '${Version}' signalbox)" "$(dpkg -f /tmp/new.deb Version)"
is "configuration" "$(tail -n 1 "$root$config")" "# the administrator's own line"
is "credentials" "$(in_root sha256sum "$data/initial-credentials")" "$credentials"
serves

echo "== removed"
dpkg -r signalbox
[[ ! -e $root/usr/bin/signalbox && -e $root$config && -e $root$data/signalbox.db ]] || fail "removed: the program is left, or the configuration or the data is not"

echo "== purged, without an answer"
dpkg -P signalbox 2>&1 | tee "$dir/purged"
grep -q "the data in $data is kept" "$dir/purged" || fail "nothing says that the data is kept"
[[ ! -e $root$config && -e $root$data/signalbox.db ]] || fail "purged: the configuration is left, or the data is not"

echo "== installed again, purged with its data"
dpkg -i /tmp/new.deb
serves
is "credentials" "$(in_root sha256sum "$data/initial-credentials")" "$credentials"
in_root debconf-set-selections <<<"signalbox signalbox/delete-data boolean true"
dpkg -P signalbox
[[ ! -e $root$data && ! -e $root/etc/signalbox ]] || fail "purged: the data or the configuration is left"
in_root dpkg-query -W signalbox 2>/dev/null && fail "the package is known"
[[ -z $(find "$root/usr" "$root/lib" -xdev -name '*signalbox*' -newer "$root/tmp/old.deb") ]] || fail "files are left: $(find "$root/usr" -xdev -name '*signalbox*')"
exit 0
