#!/usr/bin/env bash
# namespace.sh COMMAND... runs a command with a network of its own, which has only the
# loopback interface, and with mounts and processes that end with it.
set -euo pipefail
exec unshare --mount --net --pid --fork --kill-child --mount-proc bash -euo pipefail -c '
	PATH=$PATH:/usr/sbin:/sbin
	ip link set lo up
	"$@"' namespace "$@"
