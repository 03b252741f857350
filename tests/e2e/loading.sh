#!/bin/bash
# loading.sh BIN LOADING: a program that looks at the files of devices in one thread and loads libraries in another.
. "${0%/*}/lib.sh"

expect 0 weft run -- "$2"
expect 0 weft down
finish
