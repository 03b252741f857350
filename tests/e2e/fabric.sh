#!/bin/bash
# weft fabric as a user meets it: what make prints check reads, and what is wrong is told with the next step.
. "${0%/*}/lib.sh"

net=$HOME_DIR/net
# no daemon, and nothing is left behind
weft fabric make fat-tree ports=4 >"$net"
expect 0 weft fabric check "$net"
says "14: 6 switches, 8 channel adapters, 0 routers; 16 links"
says "min-hop, without credit loops"
says "56 of 56 reach"
says "a packet to 0xc000 from h1[1] reaches 7 of 7 other host ports"
gone "$WEFT_DIR" || fail "weft fabric makes $WEFT_DIR"
[ "$(weft fabric make fat-tree ports=4 | sha1sum)" = "$(sha1sum <"$net")" ] || fail "two runs print two topologies"

# options stand anywhere; auto leaves min-hop where that deadlocks
weft fabric make torus size=5 >"$net"
for command in "--json check" "check --json"; do
	out=$(weft fabric $command "$net") || fail "weft fabric $command fails"
	says '"routing": "up-down"'
	says '"credit_loop": false'
done
expect 0 weft fabric check --routing min-hop "$net"
says "min-hop, with a credit loop"
expect 0 weft fabric check - <"$net"
says "20 of 20 reach"

# one path, hop by hop
expect 0 weft fabric path "$net" h1 h3
[ "$(wc -l <<<"$out")" = 5 ] || fail "not four links and a last line: $out"
says "h1[1]            -> s1["
says "is delivered at h3[1] after 4 links, on virtual lane 0"
expect 0 weft fabric path "$net" s1:0 s2 --json
says '"delivered": true'
says '"at_port": 0'
expect 1 weft fabric path "$net" h1 h6
says "there is no linked port 'h6'"
expect 1 weft fabric path "$net" h1:2 h3
says "there is no linked port 'h1:2'"
expect 2 weft fabric path "$net" h1
says "two nodes are wanted"

# a part that nobody reaches
{ cat "$net"; printf 'Switch 1 "x"\n[1] "y"\nCa 1 "y"\n'; } >"$net.two"
expect 1 weft fabric check "$net.two"
says "20 of 30 reach"
says "10 lead nowhere"
expect 1 weft fabric check --json "$net.two"
says '"lost": 10'
says '"group_reached": 4'
expect 1 weft fabric path "$net.two" h1 y
says "is dropped at s1["
says "a switch whose table has no port for the LID"

# a short text that stands for much memory
for i in {1..900}; do echo "Switch 254 \"x$i\""; done >"$net.two"
expect 1 weft fabric check "$net.two"
says "the fabric would take 5"
says "MB, of at most 512"

# mistakes
{ cat "$net"; echo '[7] "nobody"[1]'; } >"$net.two"
lines=$(wc -l <"$net.two")
expect 1 weft fabric check "$net.two"
says "$net.two:$lines: expected a port number of 1 to 1 and ]"
says "next: weft-fabric(1)"
expect 1 weft fabric check "$HOME_DIR/none"
says "none: No such file or directory"
expect 1 weft fabric check "$HOME_DIR"
says "Is a directory"
expect 2 weft fabric make ring
says "there is no kind 'ring' of topology"
expect 2 weft fabric make
says "dragonfly"
expect 2 weft fabric make star --json
says "make prints a topology, without options"
expect 2 weft fabric
says "make, check, path, load, unload, link, show or top is wanted"
expect 2 weft fabric shew
says "there is no 'weft fabric shew'"
expect 2 weft fabric check "$net" "$net"
says "one file is wanted"
expect 2 weft fabric check --routing min-hop
says "a network's fabric is checked as it stands, without --routing"
expect 1 weft fabric check
says "there is no network in $WEFT_DIR"
gone "$WEFT_DIR" || fail "weft fabric check makes $WEFT_DIR"
expect 2 weft fabric check --routing lash "$net"
says "there is no routing 'lash'"

rm "$net" "$net.two"
finish
