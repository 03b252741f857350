#!/bin/sh
# alone.sh COMMAND...: runs it in a network of its own, where nobody has UDP port 4791. Exit 77: there can be none here.
unshare -rn ip link set lo up 2>/dev/null || exit 77
exec unshare -rn sh -c 'ip link set lo up && exec "$@"' sh "$@"
