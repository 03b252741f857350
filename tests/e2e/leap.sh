#!/bin/bash
# leap.sh BIN LEAP: weft starts weftd also when it is stopped for long while it does so.
. "${0%/*}/lib.sh"

[ -e "$2" ] || fail "$2 is not built"
expect 0 env LD_PRELOAD="$2" "$BIN/weft" up
expect 0 weft status
expect 0 weft down
finish
