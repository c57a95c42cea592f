#!/usr/bin/env bash
# systemd.sh installs /machine/signalbox.deb on a machine that systemd runs (machine.sh), and has the
# service do its work under the unit. Then it upgrades a program that was copied, under the same
# unit, to the release /machine/next, and goes back.
set -euo pipefail
cd /machine
fail() {
	printf 'systemd.sh: %s\n' "$*" >&2
	journalctl --no-pager -n 60 >&2
	exit 1
}
is() { # DESCRIPTION GOT WANT
	[[ $2 == "$3" ]] || fail "$1: got '$2', want '$3'"
}
has() { # DESCRIPTION GOT PART
	[[ $2 == *"$3"* ]] || fail "$1: got '$2', want '$3' in it"
}
state() { systemctl show --value -p "$1" "$unit"; }
until_state() { # PROPERTY VALUE
	local tries=0
	until [[ $(state "$1") == "$2" ]]; do
		((tries++ < 300)) || fail "$1 of $unit is $(state "$1"), not $2"
		sleep 0.1
	done
}
trap 'fail "line $LINENO failed"' ERR
as_service() { runuser -u signalbox -- "$@"; }

echo "== installed: systemd starts it"
unit=signalbox.service
config=/etc/signalbox/signalbox.yaml
dpkg --no-triggers -i signalbox.deb >dpkg.log 2>&1 || fail "dpkg: $(cat dpkg.log)"
is "state" "$(state ActiveState)/$(state SubState)/$(state UnitFileState)" active/running/enabled
grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' "/proc/$(state MainPID)/status"

echo "== all its work under the unit"
credentials=/var/lib/signalbox/initial-credentials
sed -n 's/^API administrator: .*  password: //p' $credentials >password
export SIGNALBOX_URL=http://127.0.0.1:8080
SIGNALBOX_TOKEN=$(signalbox user login admin@localhost --password-file password --columns token --no-header)
export SIGNALBOX_TOKEN
signalbox role create sensor --set 'acls=[{"acltype":"publishClientSend","topic":"plant/#","priority":0,"allow":true},{"acltype":"subscribePattern","topic":"plant/#","priority":0,"allow":true}]'
printf secret >secret
signalbox client create pump-7 --password-file secret --role sensor
signalbox stream create speed --sourcetopic 'plant/+/speed' --persist
mosquitto_sub -u pump-7 -P secret -i reader -t 'plant/#' -C 1 -W 30 >received &
reader=$!
until signalbox session list -o name | grep -q reader; do sleep 0.1; done
mosquitto_pub -u pump-7 -P secret -t plant/7/speed -m 2.9 -q 1 -r
wait "$reader"
is "message" "$(cat received)" 2.9
has "console" "$(curl -s http://127.0.0.1:8080/ui/login)" "<form"
as_service signalbox backup create --config "$config" /var/lib/signalbox/rehearsal.backup >/dev/null
as_service signalbox backup verify --config "$config" /var/lib/signalbox/rehearsal.backup >/dev/null
as_service signalbox doctor --config "$config" --offline >doctor || fail "doctor: $(cat doctor)"
as_service signalbox check disk --config "$config" >check || fail "check disk: $(cat check)"

echo "== reloaded, killed, hanging"
pid=$(state MainPID)
systemctl reload "$unit"
is "reloaded" "$(state ActiveState) $(state MainPID) $(state NRestarts)" "active $pid 0"
kill -KILL "$pid"
until_state NRestarts 1
until_state SubState running
mkdir "/run/systemd/system/$unit.d"
printf '[Service]\nWatchdogSec=1\n' >"/run/systemd/system/$unit.d/watchdog.conf"
systemctl daemon-reload
systemctl restart "$unit"
kill -STOP "$(state MainPID)"
until_state NRestarts 1
until_state SubState running
is "retained message" "$(mosquitto_sub -u pump-7 -P secret -t 'plant/7/speed' -C 1 -W 30)" 2.9

echo "== a port below 1024, with the drop-in"
cp /usr/share/doc/signalbox/low-ports.conf "/run/systemd/system/$unit.d"
echo 'http: {listen: "127.0.0.1:443"}' >>"$config"
systemctl daemon-reload
systemctl restart "$unit"
has "capabilities" "$(grep CapEff "/proc/$(state MainPID)/status")" 0000000000000400
curl -sf http://127.0.0.1:443/readyz >ready
systemctl disable --now --quiet "$unit"
is "stopped" "$(state ActiveState) $(state Result)" "inactive success"

echo "== upgraded by the program itself"
unit=plant.service
config=/etc/plant.yaml
mkdir -p /opt/plant
cp /usr/bin/signalbox /opt/plant/signalbox
printf 'data_dir: /var/lib/plant\n' >"$config"
sed "s|/usr/bin/signalbox|/opt/plant/signalbox|; s|/etc/signalbox/signalbox.yaml|$config|; s|^StateDirectory=.*|StateDirectory=plant|" \
	/lib/systemd/system/signalbox.service >/etc/systemd/system/plant.service
systemctl daemon-reload
systemctl start "$unit"
runs() { # VERSION
	is "state" "$(state ActiveState)" active
	has "status" "$(/opt/plant/signalbox upgrade status --config "$config")" "service runs  $1 "
}
runs v1.2.3
pid=$(state MainPID)
/opt/plant/signalbox upgrade --config "$config" next
[[ $(state MainPID) != "$pid" ]] || fail "the service was not restarted"
runs v1.2.4
/opt/plant/signalbox upgrade rollback --config "$config"
runs v1.2.3
is "restarts because of failures" "$(state NRestarts)" 0
