#!/bin/bash
# debian.sh: what try.sh runs as root in a fresh system whose /try it has filled: installs the packages with the commands of
# docs/systems.md as they stand but for make and sudo, uses and removes them.
. /try/lib.sh

# Every file with its kind, mode, owner and what a link leads to, but for what dpkg and apt keep for themselves.
files() {
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /try -o -path /var/lib/dpkg -o -path /var/lib/apt \
		-o -path /var/cache/apt -o -path /var/log -o -path /var/cache/ldconfig \) -prune \
		-o -printf '%p %y %m %U:%G %l\n' | sort
}
files >/try/before
commands=$(sed -n '/^```sh packages/,/^```$/p' systems.md | sed '/^```/d; /make /d; s/^sudo //')
out=$(bash -e <<<"$commands" 2>&1) || fail "$commands: $out"
case $out in *weft0*weft1*) ;; *) fail "no devices: $out" ;; esac
weft down >/dev/null
apt-get -q install ./build/packages/weft-dev_*.deb >log 2>&1 || fail "weft-dev cannot be installed: $(cat log)"
added=$(files | comm -13 /try/before - | wc -l)
[ "$added" -gt 30 ] || fail "only $added files installed"

case $(as_user weft --version) in "weft "*.*.*" ("*")") ;; *) fail "weft --version: $(weft --version)" ;; esac
tour /usr/bin
for shell in bash-completion/completions/weft zsh/vendor-completions/_weft fish/vendor_completions.d/weft.fish; do
	[ -s "/usr/share/$shell" ] || fail "no /usr/share/$shell"
done
weft completion bash | cmp - /usr/share/bash-completion/completions/weft || fail "the completion of bash is another one"
for page in man1/weft.1 man1/weft-run.1 man8/weftd.8; do
	gzip -t "/usr/share/man/$page.gz" || fail "no page $page"
done

# weft-dev: a program that asks what it runs on
cat >/try/ask.c <<'END'
#include <stdio.h>
#include <weft/weft.h>
int main(void) { return puts(weft_version()) < 0; }
END
cc -o /try/ask /try/ask.c $(pkg-config --cflags --libs weft) || fail "weft.pc leads to no program"
version=$(as_user env WEFT_DIR=/tmp/weft-ask WEFT_IDLE_S=0.2 weft run -- /try/ask)
[ "weft $version" = "$(weft --version | cut -d' ' -f1,2)" ] || fail "weft_version() is '$version'"
[ "$(pkg-config --modversion weft)" = "$version" ] || fail "weft.pc has version $(pkg-config --modversion weft)"
as_user env WEFT_DIR=/tmp/weft-ask weft down

apt-get -q -y purge weft weft-dev >/try/log 2>&1 || fail "they cannot be removed: $(cat /try/log)"
files | diff /try/before - || fail "something is left or gone"
exit $status
