#!/bin/bash
# archive.sh: what try.sh runs as root in a fresh system whose /try it has filled: the commands of docs/systems.md as they stand
# but for make and sudo, and README's tour as an ordinary user, from another folder.
. /try/lib.sh

commands=$(sed -n '/^```sh archive/,/^```$/p' systems.md | sed '/^```/d; /make /d; s/^sudo //')
out=$(bash -e <<<"$commands" 2>&1) || fail "$commands: $out"
case $out in *weft0*weft1*) ;; *) fail "no devices: $out" ;; esac
/opt/weft-*/bin/weft down >/dev/null
mv /opt/weft-* /opt/moved
tour /opt/moved/bin
as_user e2e/completion.sh /opt/moved/bin || fail "completion from the archive"
rm -r /opt/moved
exit $status
