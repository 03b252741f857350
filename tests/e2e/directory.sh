#!/bin/bash
# A runtime directory that somebody else may have prepared is refused, by weftd and by weft, with the cause and the next step.
. "${0%/*}/lib.sh"

refused() {
	for command in weftd "weft run -- true" "weft status" "weft up" "weft down" "weft qp"; do
		expect 1 $command
		says "$WEFT_DIR"
		says "$1"
		says "next: "
	done
}

mkdir -m 700 "$HOME_DIR/elsewhere"
ln -s elsewhere "$WEFT_DIR"
refused "symbolic link"
rm "$WEFT_DIR"
rmdir "$HOME_DIR/elsewhere"

touch "$WEFT_DIR"
refused "not a directory"
rm "$WEFT_DIR"

mkdir -m 777 "$WEFT_DIR"
chmod 777 "$WEFT_DIR"
refused "other users may write"
rmdir "$WEFT_DIR"

if [ "$(id -u)" = 0 ]; then
	mkdir -m 700 "$WEFT_DIR"
	chown 65534 "$WEFT_DIR"
	refused "belongs to another user"
	rmdir "$WEFT_DIR"
fi

saved=$WEFT_DIR
WEFT_DIR=relative/path
expect 1 weft run -- true
says "absolute"
WEFT_DIR=/tmp/$(printf 'x%.0s' {1..120})
expect 1 weft run -- true
says "too long"
WEFT_DIR=$saved

finish
