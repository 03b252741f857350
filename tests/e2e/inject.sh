#!/bin/bash
# Programs that the dynamic loader, a sanitizer or a launcher could keep from weft's devices: inject.sh BIN CASE.
. "${0%/*}/lib.sh"

weft_libraries=$(realpath "$BIN/../lib/weft")
stock=$(/sbin/ldconfig -p | sed -n 's/.*libibverbs\.so\.1 .*=> //p' | head -1)
prog=$HOME_DIR/prog

skip() {
	rmdir "$HOME_DIR"
	echo "SKIP: $*"
	exit 77
}
need() {
	command -v "$1" >/dev/null || skip "no $1"
}
# build COMPILER OPTION...: a program that lists the devices, then those of the libibverbs that dlopen finds
build() {
	need "$1"
	local errors
	errors=$("$@" -g -o "$prog" "${0%/*}/devices.c" -libverbs 2>&1) || skip "$* does not build: $errors"
}
sees_devices() {
	expect 0 "$@"
	[ "$out" = "weft0 weft1" ] || fail "'$*' does not see weft's devices alone: $out"
}

case $2 in
rpath_of_the_program_hides_weft)
	need gcc
	[ -n "$stock" ] || skip "no libibverbs.so.1"
	build gcc -Wl,--disable-new-dtags,-rpath,"${stock%/*}"
	readelf -d "$prog" | grep -q '(RPATH)' || skip "the linker makes no DT_RPATH"
	sees_devices weft run -- "$prog"
	;;
modules_change_library_path)
	[ -n "$stock" ] || skip "no libibverbs.so.1"
	build gcc
	sees_devices weft run -- bash -c "export LD_LIBRARY_PATH=${stock%/*}:\$LD_LIBRARY_PATH; $prog"
	sees_devices weft run -- env -u LD_LIBRARY_PATH "$prog"
	;;
dlopen_by_soname_finds_another)
	[ -n "$stock" ] || skip "no libibverbs.so.1"
	need gcc
	gcc -DBY_NAME=\"libibverbs.so.1\" -Wl,--disable-new-dtags,-rpath,"${stock%/*}" -o "$prog" "${0%/*}/devices.c"
	sees_devices weft run -- "$prog"
	;;
gcc_asan_refuses_to_start)
	build gcc -fsanitize=address
	sees_devices weft run -- "$prog"
	sees_devices weft run -- sh -c "$prog"
	sees_devices env ASAN_OPTIONS=detect_leaks=0 "$BIN/weft" run -- "$prog"
	# it still finds what it is for
	gcc -fsanitize=address -DOVERRUN -o "$prog" "${0%/*}/devices.c" -libverbs
	expect 1 env ASAN_OPTIONS= "$BIN/weft" run -- "$prog"
	says heap-buffer-overflow
	;;
clang_asan_refuses_to_start)
	build clang -fsanitize=address
	sees_devices weft run -- "$prog"
	build clang -fsanitize=address -shared-libasan
	libraries=$(dirname "$(clang -print-file-name=libclang_rt.asan-x86_64.so)")
	LD_LIBRARY_PATH=$libraries sees_devices weft run -- "$prog"
	;;
asan_in_ld_preload_stops_every_program)
	build gcc -fsanitize=address
	export LD_PRELOAD=$(gcc -print-file-name=libasan.so)
	case $LD_PRELOAD in /*) ;; *) unset LD_PRELOAD; skip "no libasan.so" ;; esac
	unset ASAN_OPTIONS
	sees_devices "$BIN/weft" run -- "$prog"
	# also where verify_asan_link_order is the default again
	sees_devices "$BIN/weft" run -- env ASAN_OPTIONS=detect_leaks=1 "$prog"
	unset LD_PRELOAD
	;;
ld_preload_of_its_own_loses_weft)
	need gcc
	echo 'int the_own_one(void) { return 42; }' | gcc -shared -fPIC -x c -o "$HOME_DIR/own.so" -
	gcc -DOWN -o "$prog" "${0%/*}/devices.c" -libverbs
	LD_PRELOAD=$HOME_DIR/own.so sees_devices weft run -- "$prog"
	rm "$HOME_DIR/own.so"
	;;
env_clears_the_environment)
	build gcc
	sees_devices weft run -- env -i "$prog"
	sees_devices weft run -- env -i sh -c "exec $prog"
	sees_devices weft run -- env -i LD_PRELOAD=/lib/x86_64-linux-gnu/libm.so.6 ASAN_OPTIONS=detect_leaks=0 "$prog"
	need python3
	for call in 'os.execve(p, [p], {})' 'os.execv(p, [p])' 'os.execle(p, p, {"A": "b"})' \
		'sys.exit(os.waitpid(os.posix_spawn(p, [p], {}), 0)[1])' 'sys.exit(subprocess.call([p], env={}))'; do
		sees_devices weft run -- python3 -c "import os, subprocess, sys; p = sys.argv[1]; $call" "$prog"
	done
	# all that weft run sets comes back
	weft fabric make fat-tree ports=4 >"$HOME_DIR/net" && expect 0 weft fabric load "$HOME_DIR/net"
	options=(--node h1 -d weft0 --shared-heap --remap --path packet --engine thread --profile seed --impair loss=1%,seed=1
		--trace "$HOME_DIR/trace" --stats="$HOME_DIR/stats")
	names() { sed -n 's/^\(WEFT_[A-Z_]*\)=.*/\1/p' <<<"$out" | sort -u; }
	expect 0 env
	before=$(names)
	expect 0 weft run "${options[@]}" -- env
	set=$(comm -13 <(echo "$before") <(names))
	[ "$(wc -l <<<"$set")" -ge 10 ] || fail "weft run sets no more than $set"
	expect 0 weft run "${options[@]}" -- env -i "$(command -v env)"
	lost=$(comm -23 <(echo "$set") <(names))
	[ -z "$lost" ] || fail "env -i loses $lost"
	rm "$HOME_DIR/trace" "$HOME_DIR/stats" "$HOME_DIR/net"
	expect 0 weft fabric unload
	# the rest is as the launcher wants it
	expect 0 weft run -- env -i A=b WEFT_LOG=error "$(command -v env)"
	says A=b
	says WEFT_LOG=error
	case $out in *PATH=*) fail "more came back than was weft's: $out" ;; esac
	# and who wants to leave can
	expect 1 weft run -- env -u LD_LIBRARY_PATH -u LD_PRELOAD "$prog"
	expect 1 weft run -- env -i WEFT_ROOT= "$prog"
	expect 0 weft run -- env -i WEFT_ROOT= "$(command -v env)"
	[ "$out" = WEFT_ROOT= ] || fail "weft comes along with an empty WEFT_ROOT: $out"
	;;
weftd_that_is_started_again_has_the_shim)
	need python3
	# a program that has a device open and has cleared its environment
	coproc "$BIN/weft" run -- python3 -c '
import ctypes, os, sys
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
devices = verbs.ibv_get_device_list(None)
if not verbs.ibv_open_device(ctypes.c_void_p(devices[0])):
	sys.exit("no device")
os.environ.clear()
print("open", flush=True)
sys.stdin.read()'
	program=$COPROC_PID
	read -r line <&"${COPROC[0]}"
	[ "$line" = open ] || fail "the program says '$line'"
	old=$(daemons)
	kill -9 "$old"
	has_another() { local now; now=$(daemons) && [ -n "$now" ] && [ "$now" != "$old" ]; }
	if within 20 has_another; then
		grep -q weft-shim "/proc/$(daemons)/maps" && fail "weftd runs with the shim of the program that started it"
	else
		fail "no weftd follows the one that was killed"
	fi
	eval "exec ${COPROC[1]}>&-"
	wait "$program" || fail "the program ends with $?"
	# without WEFT_IDLE_S it stays for longer, and it may not yet have seen the program end
	within 20 "$BIN/weft" down >/dev/null 2>&1 || fail "weftd stays"
	;;
another_libibverbs_is_loaded_without_a_word)
	[ -n "$stock" ] || skip "no libibverbs.so.1"
	need gcc
	gcc -DBY_NAME="\"$stock\"" -o "$prog" "${0%/*}/devices.c"
	expect 1 weft run -- "$prog"
	says "prog has loaded $stock,"
	says "dlopen(\"libibverbs.so.1\")"
	[ "$(grep -c . <<<"$out")" = 1 ] || fail "more than one line is said: $out"
	# who has weft's is told nothing, nor who looks at the files
	gcc -DBY_NAME="\"$weft_libraries/libibverbs.so.1\"" -o "$prog" "${0%/*}/devices.c"
	sees_devices weft run -- "$prog"
	expect 0 weft run -- sh -c 'cat /sys/class/infiniband_verbs/abi_version >/dev/null'
	[ -z "$out" ] || fail "cat is told $out"
	;;
launcher_replaces_ld_preload)
	need gcc
	build gcc
	own=/lib/x86_64-linux-gnu/libm.so.6
	sees_devices weft run -- env -u LD_LIBRARY_PATH LD_PRELOAD=$own "$prog"
	expect 0 weft run -- env LD_PRELOAD=$own "$BIN/weft" run -- sh -c 'echo "$LD_PRELOAD"'
	case $out in *libweft-shim*libweft-shim*) fail "the shim is preloaded twice: $out" ;; esac
	build gcc -fsanitize=address
	sees_devices weft run -- env ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$own "$prog"
	;;
weft_calls_functions_of_the_program)
	need gcc
	gcc -w -rdynamic -o "$prog" "${0%/*}/namesake.c" || fail "namesake.c does not build"
	coproc "$BIN/weft" run -- "$prog" 2>"$HOME_DIR/called"
	program=$COPROC_PID
	read -r line <&"${COPROC[0]}"
	[ "$line" = open ] || fail "the program says '$line'"
	for report in counters qp mr; do
		expect 0 weft "$report" --json
	done
	eval "exec ${COPROC[1]}>&-"
	wait "$program" || fail "the program ends with $?"
	[ -s "$HOME_DIR/called" ] && fail "$(cat "$HOME_DIR/called")"
	rm -f "$HOME_DIR/called"
	;;
doctor_says_that_all_is_well)
	need gcc
	expect 0 weft doctor "$BIN/weft"
	says "weft does not name libibverbs"
	build gcc -Wl,--disable-new-dtags,-rpath,/opt/lib
	expect 0 weft doctor "$prog"
	says "its DT_RPATH is not asked"
	build gcc -fsanitize=address
	expect 0 weft doctor "$prog"
	says AddressSanitizer
	archive=$(gcc -print-file-name=libibverbs.a)
	case $archive in
	/*)
		rm "$prog"
		gcc -o "$prog" "${0%/*}/devices.c" "$archive" -lnl-route-3 -lnl-3 2>/dev/null
		;;
	esac
	if [ -x "$prog" ] && grep -q 'device-specific driver' "$prog"; then
		strip "$prog"
		expect 0 weft doctor "$prog"
		says "linked into it statically"
		expect 1 weft run -- "$prog"
		says "linked into it statically"
	else
		echo "part skipped: libibverbs.a cannot be linked"
	fi
	if command -v go >/dev/null; then
		expect 0 weft doctor "$(readlink -f "$(command -v go)")"
	fi
	;;
*)
	fail "no case $2"
	;;
esac

rm -f "$prog"
"$BIN/weft" down >/dev/null 2>&1
finish
