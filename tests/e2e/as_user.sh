#!/bin/bash
# as_user.sh SCRIPT BIN: runs the test as an ordinary user; as root: as nobody (65534).
set -u
if [ "$(id -u)" != 0 ]; then
	exec "$@"
fi
HOME=/tmp exec "${0%/*}/aside.sh" "$1" "$2" setpriv --reuid 65534 --regid 65534 --clear-groups
