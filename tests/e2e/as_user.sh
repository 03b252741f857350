#!/bin/bash
# as_user.sh SCRIPT ARGUMENT...: runs the test as an ordinary user. As root: as nobody (65534), when it can reach the build.
set -u
if [ "$(id -u)" != 0 ]; then
	exec "$@"
fi
user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
for path in "$@"; do
	"${user[@]}" test -x "$path" || { echo "skipped: user 65534 cannot reach $path"; exit 77; }
done
HOME=/tmp exec "${user[@]}" "$@"
