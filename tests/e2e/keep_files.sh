#!/bin/bash
# A directory that is not weft's keeps every file as it is, whatever their names and whatever command is given: weft refuses it.
# In its own directory weft leaves what it did not make.
if [ "${2-}" = sandbox ]; then
	cd / && exec unshare --root="$3" "$0" "$1" in-root
fi
. "${0%/*}/lib.sh"

SOME=("weftd" "weft run -- true" "weft down --force")
ALL=("weftd" "weft run -- true" "weft up" "weft status" "weft devices" "weft qp" "weft mr" "weft counters" "weft doctor"
	"weft down" "weft down --force")

# All but the time of reading, and but the host's own in a root of ours.
checksum() {
	find "$1" -xdev \( -path /proc -o -path /tmp -o -path /dev \) -prune -o -printf '%P %y %m %U %n %s %T@ %C@ %l\n' | sort
	find "$1" -xdev -type f -print0 | sort -z | xargs -0r sha256sum
}

# untouched DIRECTORY WORDS COMMAND...: each command says so and changes nothing
untouched() {
	local dir=$1 words=$2 before after command
	shift 2
	before=$(checksum "$dir")
	for command; do
		expect 1 $command
		says "$WEFT_DIR"
		says "$words"
		[ "$command" = "weft doctor" ] || says "next: "
		after=$(checksum "$dir")
		[ "$before" = "$after" ] || fail "$command changes $dir: $(diff <(echo "$before") <(echo "$after"))"
		before=$after
	done
	[ -z "$(daemons)" ] || fail "a weftd serves $dir"
}

# fill DIRECTORY: somebody's files, with weft's names of today and of yesterday
fill() {
	local name
	for name in page claims lock ctl ctl.new weftd.log; do
		echo "somebody's $name" >"$1/$name"
	done
	mkdir -p "$1/root/sys/class/infiniband/weft0" "$1/devices/dev/infiniband"
	echo precious >"$1/root/sys/class/infiniband/weft0/node_type"
	echo precious >"$1/root/file"
	echo precious >"$1/devices/dev/infiniband/uverbs0"
}

empty() {
	local name
	rm "$1"/{page,claims,lock,ctl,ctl.new,weftd.log,root/sys/class/infiniband/weft0/node_type,root/file} \
		"$1/devices/dev/infiniband/uverbs0"
	(cd "$1" && rmdir -p root/sys/class/infiniband/weft0 devices/dev/infiniband)
}

if [ "${2-}" = in-root ]; then
	WEFT_DIR=/
	for WEFT_DIR in / //.. /root/..; do
		untouched / "root of the file system" "${ALL[@]}"
	done
	WEFT_DIR=/home/somebody HOME=/home/somebody
	untouched / "home directory" "${ALL[@]}"
	empty /home/somebody
	untouched / "home directory" "${SOME[@]}"
	WEFT_DIR=$HOME_DIR/run
	finish
fi

if [ "${2-}" = mounted ]; then
	mkdir -m 700 "$HOME_DIR/mine" "$HOME_DIR/mine/devices"
	: >"$HOME_DIR/mine/file"
	for name in weftd.log made-by-weft/page made-by-weft/lock made-by-weft/devices made-by-weft; do
		mkdir -m 700 "$WEFT_DIR" "$WEFT_DIR/made-by-weft"
		from=$HOME_DIR/mine/file
		case $name in
		*devices) mkdir "$WEFT_DIR/$name" && from=$HOME_DIR/mine/devices ;;
		made-by-weft) from=$HOME_DIR/mine/devices ;;
		*) : >"$WEFT_DIR/$name" ;;
		esac
		mount --bind "$from" "$WEFT_DIR/$name"
		before=$(checksum "$HOME_DIR/mine")
		for command in weftd "weft run -- true"; do
			expect 1 $command
			[ "$(checksum "$HOME_DIR/mine")" = "$before" ] || fail "$command changes what is mounted at $name"
		done
		umount "$WEFT_DIR/$name"
		expect 0 weft run -- true
		expect 0 weft down
		rm -f "$WEFT_DIR/weftd.log"
		[ -z "$(ls -A "$WEFT_DIR")" ] || fail "left: $(find "$WEFT_DIR")"
		rmdir "$WEFT_DIR"
	done
	rm "$HOME_DIR/mine/file"
	rmdir "$HOME_DIR/mine/devices" "$HOME_DIR/mine"
	finish
fi

# each name alone, and all of them; a sticky bit, which is weft's own sign of what it made, is not enough
for mode in 700 1700; do
	for name in page claims lock ctl ctl.new weftd.log root devices notes; do
		mkdir "$WEFT_DIR"
		chmod $mode "$WEFT_DIR"
		echo mine >"$WEFT_DIR/$name"
		untouched "$WEFT_DIR" "not empty and was not made by weft" "${SOME[@]}"
		rm "$WEFT_DIR/$name"
		rmdir "$WEFT_DIR"
	done
	mkdir -m $mode "$WEFT_DIR"
	fill "$WEFT_DIR"
	untouched "$WEFT_DIR" "not empty and was not made by weft" "${ALL[@]}"
	empty "$WEFT_DIR"
	rmdir "$WEFT_DIR"
done

mkdir -m 700 "$WEFT_DIR"
: >"$WEFT_DIR/lock"
untouched "$WEFT_DIR" "not empty and was not made by weft" "${SOME[@]}"
rm "$WEFT_DIR/lock"
rmdir "$WEFT_DIR"

# a mark that weft did not make
mkdir -m 700 "$WEFT_DIR" "$HOME_DIR/elsewhere"
fill "$HOME_DIR/elsewhere"
ln -s ../elsewhere "$WEFT_DIR/made-by-weft"
untouched "$HOME_DIR" "not empty and was not made by weft" "${SOME[@]}"
rm "$WEFT_DIR/made-by-weft"
echo mine >"$WEFT_DIR/made-by-weft"
untouched "$WEFT_DIR" "not empty and was not made by weft" "${SOME[@]}"
rm "$WEFT_DIR/made-by-weft"
rmdir "$WEFT_DIR"

# weft's own directory, in which a name leads elsewhere: by a link of either kind
for name in ctl weftd.log made-by-weft/page made-by-weft/claims made-by-weft/lock made-by-weft/devices; do
	for kind in symbolic hard; do
		mkdir -m 700 "$WEFT_DIR" "$WEFT_DIR/made-by-weft"
		if [ $kind = symbolic ]; then
			ln -s "$HOME_DIR/elsewhere/page" "$WEFT_DIR/$name"
		else
			ln "$HOME_DIR/elsewhere/page" "$WEFT_DIR/$name"
		fi
		before=$(checksum "$HOME_DIR/elsewhere")
		for command in "weft run -- true" weftd; do
			expect 1 $command
			[ "$(checksum "$HOME_DIR/elsewhere")" = "$before" ] || fail "$command follows the $kind link $name"
		done
		says "weft"
		[ -h "$WEFT_DIR/$name" ] || [ "$WEFT_DIR/$name" -ef "$HOME_DIR/elsewhere/page" ] ||
			fail "the $kind link $name is gone"
		rm "$WEFT_DIR/$name"
		# with the link everything may go; a log that says why stays until then
		expect 0 weft down
		rm -f "$WEFT_DIR/weftd.log"
		expect 0 weft down
		[ ! -e "$WEFT_DIR/made-by-weft" ] || fail "left: $(find "$WEFT_DIR")"
		rmdir "$WEFT_DIR"
	done
done
# ... or is somebody's file
for name in ctl ctl.new weftd.log; do
	mkdir -m 700 "$WEFT_DIR" "$WEFT_DIR/made-by-weft"
	echo mine >"$WEFT_DIR/$name"
	for command in "weft run -- true" weftd; do
		expect 1 $command
		[ "$(cat "$WEFT_DIR/$name")" = mine ] || fail "$command overwrites $name"
	done
	[ $name = weftd.log ] || rm "$WEFT_DIR/weftd.log"
	expect 0 weft down
	[ "$(cat "$WEFT_DIR/$name")" = mine ] || fail "weft down removes $name"
	rm "$WEFT_DIR/$name"
	expect 0 weft down
	rmdir "$WEFT_DIR"
done
# ... a pipe must not be waited for
for name in weftd.log made-by-weft/lock made-by-weft/page; do
	mkdir -m 700 "$WEFT_DIR" "$WEFT_DIR/made-by-weft"
	mkfifo "$WEFT_DIR/$name"
	expect 1 timeout 20 "$BIN/weft" run -- true
	[ -p "$WEFT_DIR/$name" ] || fail "the pipe $name is gone"
	rm "$WEFT_DIR/$name"
	rm -f "$WEFT_DIR/weftd.log"
	expect 0 weft down
	rmdir "$WEFT_DIR"
done
empty "$HOME_DIR/elsewhere"
rmdir "$HOME_DIR/elsewhere"

# what came into weft's directory while it was served stays, is named in the log, and does not stand in the way of the next weftd
for name in notes page root made-by-weft/devices/notes made-by-weft/devices/sys/class/infiniband/weft0/notes; do
	expect 0 weft up
	echo mine >"$WEFT_DIR/$name"
	expect 0 weft down --force
	[ "$(cat "$WEFT_DIR/$name")" = mine ] || fail "$name is gone"
	grep -q "${name##*made-by-weft/}.* was not made by weft" "$WEFT_DIR/weftd.log" || fail "the log does not name $name"
	expect 0 weft run -- true
	expect 0 weft down
	[ "$(cat "$WEFT_DIR/$name")" = mine ] || fail "$name is gone"
	rm "$WEFT_DIR/$name"
	expect 0 weft run -- true
	expect 0 weft down
	gone "$WEFT_DIR" || fail "left: $(find "$WEFT_DIR")"
done

# a file that is named for a trace or a report, and holds something else
echo mine >"$HOME_DIR/file"
for options in "run --trace" "bench --json" "bench --markdown" "bench --svg"; do
	arguments=(-- true)
	[ "${options%% *}" = run ] || arguments=()
	timeout 20 "$BIN/weft" $options "$HOME_DIR/file" "${arguments[@]}" >"$HOME_DIR/out" 2>&1 &&
		fail "weft $options takes somebody's file"
	grep -q "next: " "$HOME_DIR/out" || fail "no next step: $(cat "$HOME_DIR/out")"
	[ "$(cat "$HOME_DIR/file")" = mine ] || fail "weft $options overwrites somebody's file"
done
rm "$HOME_DIR/file" "$HOME_DIR/out"
if [ -x "$BIN/../tests/e2e/e2e_pair" ]; then
	expect 0 weft run --trace "$HOME_DIR/trace" -- "$BIN/../tests/e2e/e2e_pair" send 8 1
	[ -s "$HOME_DIR/trace" ] || fail "there is no trace"
	expect 0 weft run --trace "$HOME_DIR/trace" -- true
	[ ! -s "$HOME_DIR/trace" ] || fail "a trace of an earlier run is not replaced"
	rm "$HOME_DIR/trace"
fi
within 8 gone "$WEFT_DIR" || fail "weftd does not leave"

# a directory that is removed, and made anew, is not the old weftd's any more
export WEFT_IDLE_S=60
expect 0 weft up
old=$(daemons)
rm -r "$WEFT_DIR"
expect 0 weft up
kill "$old"
within 5 are_live 1
expect 0 weft status
says "stays when idle"
rm -r "$WEFT_DIR"
mkdir -m 700 "$WEFT_DIR"
fill "$WEFT_DIR"
before=$(checksum "$WEFT_DIR")
kill "$(daemons)"
within 5 are_live 0
[ "$(checksum "$WEFT_DIR")" = "$before" ] || fail "weftd changes what came in place of its directory"
empty "$WEFT_DIR"
rmdir "$WEFT_DIR"
export WEFT_IDLE_S=0.2

# what is mounted over weft's names is somebody's; in a mount namespace of our own
unshare=(unshare --mount --pid --fork)
[ "$(id -u)" = 0 ] || unshare+=(--user --map-root-user)
if "${unshare[@]}" true 2>/dev/null; then
	"${unshare[@]}" --mount-proc "$0" "$BIN" mounted || fail "in a mount namespace of its own"
else
	echo "no mount namespace here: what is mounted over weft's names is not tried"
fi

# the root of the file system, and a home: in a root of our own, as what is there would be lost
sandbox=$HOME_DIR/root
mkdir "$sandbox"
# box ROOT SCRIPT BIN
box() {
	local top
	set -e
	mount --make-rprivate /
	mount -t tmpfs -o mode=755 none "$1"
	mkdir -p "$1"/{home/somebody,proc,dev,tmp,usr,etc,"${2%/*}","$3/.."}
	fill "$1"
	fill "$1/home/somebody"
	for top in usr etc dev tmp "${2%/*}" "$(realpath "$3/..")"; do mount --rbind "/$top" "$1/$top"; done
	for top in bin sbin lib lib64; do [ ! -e "/$top" ] || ln -s "usr/$top" "$1/$top"; done
	mount -t proc none "$1/proc"
	exec "$2" "$3" sandbox "$1"
}
if [ -h /bin ] && "${unshare[@]}" true 2>/dev/null; then
	out=$("${unshare[@]}" bash -c "$(declare -f box fill); box '$sandbox' '$(realpath "$0")' '$(realpath "$BIN")'" 2>&1) ||
		fail "in a root of its own: $out"
else
	echo "no sandbox here: what becomes of / is not tried"
fi
rmdir "$sandbox"

finish
