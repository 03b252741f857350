#!/bin/bash
# networks.sh BIN STRANGER_QP: programs of one user meet, however each was started, and those that cannot meet are told of each
# other's networks. In a mount namespace of its own with an empty /tmp and /run, as these are the places in question.
if [ -z "${WEFT_APART-}" ]; then
	[ "$(id -u)" = 0 ] || { echo "skipped: only root can mount"; exit 77; }
	unshare -m true 2>/dev/null || { echo "skipped: no mount namespace can be made"; exit 77; }
	copy=$(mktemp -d /var/tmp/weft-networks-XXXXXX) || exit 1
	trap 'rm -r "$copy"' EXIT
	chmod 755 "$copy"
	build=${1%/bin}
	mkdir -p "$copy/build/tests/e2e"
	cp -r "$1" "$build/lib" "$copy/build"
	cp "$2" "$copy/build/tests/e2e"
	chmod -R a+rX "$copy"
	cp "$0" "${0%/*}/lib.sh" "$copy"
	WEFT_APART=1 unshare -m "$copy/${0##*/}" "$copy/build/bin"
	exit
fi
mount --make-rprivate / && mount -t tmpfs -o mode=1777 tmpfs /tmp && mount -t tmpfs -o mode=755 tmpfs /run || exit 1
mkdir /run/user
. "${0%/*}/lib.sh"
unset WEFT_DIR
QP=${BIN%/bin}/tests/e2e/e2e_stranger_qp
export WEFT_IDLE_S=60

# user UID VARIABLE=VALUE... COMMAND...
user() { env -u XDG_RUNTIME_DIR setpriv --reuid "$1" --regid "$1" --clear-groups env "${@:2}"; }
mkdir -m 700 /run/user/20071 /run/user/20072
chown 20071 /run/user/20071
chown 20072 /run/user/20072
directory() { sed -n 's/.*"directory": "\(.*\)",*/\1/p' <<<"$out" | tail -n 1; }

# a login shell has XDG_RUNTIME_DIR; cron, sudo, systemd units and `docker exec` have it not: it is one network all the same
expect 0 user 20071 XDG_RUNTIME_DIR=/run/user/20071 "$BIN/weft" up
says "/run/user/20071/weft"
expect 0 user 20071 "$BIN/weft" status
says "in /run/user/20071/weft"
expect 0 user 20071 "$BIN/weft" run -- sh -c 'echo $WEFT_DIR'
says /run/user/20071/weft
expect 0 user 20071 "$BIN/weft" down

# one that began where there was no such directory is found after it appeared
expect 0 user 20073 "$BIN/weft" up
says "/tmp/weft-20073"
mkdir -m 700 /run/user/20073
chown 20073 /run/user/20073
expect 0 user 20073 XDG_RUNTIME_DIR=/run/user/20073 "$BIN/weft" status
says "in /tmp/weft-20073"
# somebody else's directory of that name is no network of ours
mkdir -m 700 /tmp/weft-20074
expect 1 user 20074 "$BIN/weft" status
says "/tmp/weft-20074 cannot be used"
rmdir /tmp/weft-20074

# two networks: status, doctor and the message of who finds nobody name the other
expect 0 user 20072 "$BIN/weft" up
expect 0 user 20072 "$BIN/weft" status
says "another weftd runs in /tmp/weft-20073 (user 20073)"
out=$(user 20072 "$BIN/weft" doctor)
says "others, whose programs do not meet those of this one: /tmp/weft-20073 (user 20073)"
expect 0 user 20072 WEFT_DIR=/tmp/weft-other-20072 "$BIN/weft" up
out=$(user 20072 WEFT_DIR=/tmp/weft-other-20072 "$BIN/weft" doctor)
says "this user has another weftd"
expect 0 user 20072 WEFT_DIR=/tmp/weft-other-20072 "$BIN/weft" run -- "$QP"
says "no process of the network in /tmp/weft-other-20072 has QP 0x"
says "but there are other networks: /run/user/20072/weft (user 20072), /tmp/weft-20073 (user 20073)"
[ "$(grep -c 'no process of the network' <<<"$out")" = 1 ] || fail "told more than once: $out"
expect 0 user 20072 WEFT_DIR=/tmp/weft-other-20072 "$BIN/weft" down
if command -v rping >/dev/null; then
	out=$(user 20072 "$BIN/weft" run -- rping -c -a 127.0.0.1 -p 7311 -C 1 2>&1)
	says "no process of the network in /run/user/20072/weft has a listener at that address and port"
	says "/tmp/weft-20073 (user 20073)"
fi
expect 0 user 20073 "$BIN/weft" down
# alone, it is not worth a word
expect 0 user 20072 "$BIN/weft" run -- "$QP"
case $out in *"no process of"*) fail "one network, and there is talk of others: $out" ;; esac
expect 0 user 20072 "$BIN/weft" down
WEFT_DIR=$HOME_DIR/none
finish
