#!/bin/sh
# What patch leaves beside the files that it changes is not in the tree.
# No line is wider than 130 columns, a tab counting 8. Left out are rows of Markdown tables, which cannot be broken, and what
# programs have written: corpora, captures, golden dumps, outputs, patches, the report of a benchmark.
# usage: columns.sh SOURCE_DIR
cd "$1" || exit 2
left=$(find bench cmake docs examples fuzz include man scripts sim src tests \( -name '*.orig' -o -name '*.rej' \))
if [ "$left" ]; then
	printf 'left by patch:\n%s\n' "$left"
	exit 1
fi
set -- fuzz/corpus tests/wire/captures tests/wire/golden tests/unit/bench tests/mutants docs/performance.md docs/performance.svg \
	docs/performance.json
for written; do
	skipped="${skipped-}${skipped+ -o }-path $written"
done
# shellcheck disable=SC2086
find ./*.md ./*.txt ./*.json ./Makefile .ci bench cmake docs examples fuzz include man scripts sim src tests \
	\( $skipped -o -name __pycache__ \) -prune -o -type f -exec awk '
	FILENAME ~ /\.md$/ && /^ *\|/ { next }
	{
		parts = split($0, part, "\t")
		width = 0
		for (i = 1; i < parts; i++)
			width += length(part[i]) + 8 - (width + length(part[i])) % 8
		width += length(part[parts])
	}
	width > 130 { printf "%s:%d: %d columns\n", FILENAME, FNR, width; found = 1 }
	END { exit found }' {} +
