# Sourced by the tests of weftd and weft: BIN is the build's bin. Each test has a runtime directory of its own, below one that is
# its alone and must be empty at the end. Nothing waits longer than it must, and nothing for ever.
set -u -o pipefail

BIN=$1
# ours alone: what programs of others are doing does not count
HOME_DIR=$(mktemp -d /tmp/weft-e2e.XXXXXX)
export WEFT_DIR=$HOME_DIR/run WEFT_IDLE_S=0.2
unset XDG_RUNTIME_DIR WEFT_ROOT
# of a build with sanitizers, for the programs
[ -z "${WEFT_TEST_PRELOAD-}" ] || export LD_PRELOAD=$WEFT_TEST_PRELOAD
# to files: weftd, in the background, has no output
for runtime in ASAN UBSAN TSAN; do
	options=${runtime}_OPTIONS
	export "$options=${!options-}:log_path=$HOME_DIR/finding"
done
export WEFT_BUGS=$HOME_DIR/finding.bugs
failures=0

# Our own programs' leaks are looked for, other people's are not.
leaks() { ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=1 "$@"; }
weft() {
	if [ "${1-}" = run ]; then
		"$BIN/weft" "$@"
	else
		leaks "$BIN/weft" "$@"
	fi
}
weftd() { leaks "$BIN/weftd" "$@"; }

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# expect STATUS COMMAND...: runs it; its output goes to $out.
expect() {
	local want=$1 got
	shift
	out=$("$@" 2>&1)
	got=$?
	[ "$got" = "$want" ] || fail "'$*' exits with $got, not $want: $out"
}

# says TEXT: the last command's output has it.
says() {
	case $out in *"$1"*) ;; *) fail "'$1' is missing in: $out" ;; esac
}

# shows COMMAND TEXT: does `weft COMMAND` print it? Its output goes to $out.
shows() { out=$(weft "$1" 2>&1); case $out in *"$2"*) ;; *) false ;; esac }

# within SECONDS COMMAND...: until it succeeds.
within() {
	local end=$((SECONDS + $1 + 1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.02
	done
}

# a port of 127.0.0.1 that nobody listens at
free_port() {
	local port hex
	while
		port=$((20000 + RANDOM % 10000))
		hex=$(printf %04X "$port")
		grep -qiE "^ *[0-9]+: [0-9A-F]+:$hex " /proc/net/tcp /proc/net/tcp6
	do :; done
	echo "$port"
}
# is_listening PORT: does anybody? Nothing connects to it.
is_listening() { grep -qiE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F]+:0000 0A " /proc/net/tcp /proc/net/tcp6; }

gone() { [ ! -e "$1" ]; }
# Has a child of this shell ended? Then wait does not wait.
ended() { [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }

# The weftd processes of our directory that live.
daemons() {
	local p
	for p in /proc/[0-9]*; do
		[ "$p/exe" -ef "$BIN/weftd" ] && ! grep -qx weftd-intake "$p/comm" 2>/dev/null || continue
		tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -qx "WEFT_DIR=$WEFT_DIR" && echo "${p#/proc/}"
	done
}

are_live() { [ "$(daemons | wc -w)" = "$1" ]; }

finish() {
	local pid finding
	within 5 gone "$WEFT_DIR" || fail "weftd does not leave, or leaves something: $(find "$HOME_DIR" -maxdepth 2)"
	within 5 are_live 0
	for pid in $(daemons); do
		fail "weftd $pid is left"
		kill -9 "$pid"
	done
	for finding in "$HOME_DIR"/finding.*; do
		[ ! -e "$finding" ] || { fail "found by a sanitizer or a check of weft: $(cat "$finding")"; rm "$finding"; }
	done
	rmdir "$HOME_DIR" || { fail "something is left in $HOME_DIR: $(find "$HOME_DIR" -maxdepth 2)"; rm -rf "${HOME_DIR:?}"; }
	[ "$failures" = 0 ] && echo "all as expected"
	exit "$((failures != 0))"
}
