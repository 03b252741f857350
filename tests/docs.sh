#!/bin/bash
# docs.sh PROJECT: the site of `make docs` is built without a warning, has each document and manual page, shows tables, lists and
# code as such, and takes nothing from other sites.
set -u -o pipefail
project=$1
for program in mkdocs groff; do
	command -v $program >/dev/null || { echo "SKIP: no $program here: scripts/setup docs"; exit 77; }
done
dir=$(mktemp -d /tmp/weft-docs.XXXXXX) || exit 1
trap 'rm -r "$dir"' EXIT
failures=0
fail() {
	echo "FAILED: $*"
	failures=1
}

out=$("$project/scripts/docs" "$dir" 2>&1) || fail "scripts/docs fails: $out"
[ "$out" = "$dir/site/index.html" ] || fail "scripts/docs prints: $out"
pages=(index changelog architecture contributing)
for file in "$project"/docs/*.md "$project"/man/*.[18]; do
	name=${file##*/}
	case $file in *.md) pages+=("${name%.md}") ;; *) pages+=("man/$name") ;; esac
done
for page in "${pages[@]}"; do
	[ -s "$dir/site/$page.html" ] || { fail "no page $page"; continue; }
	[ "$page" = man/weft.1 ] || grep -q "href=\"[^\"]*${page##*/}\.html\"" "$dir/site/man/weft.1.html" ||
		fail "nothing leads to $page"
	# what Markdown did not take for what it is
	found=$(grep -nE '^<p>\||```|^<p>- |^- [^-]' "$dir/site/$page.html") && fail "$page.html has $found"
done
grep -q '<h1 id="weft-run1">' "$dir/site/man/weft-run.1.html" || fail "the page of weft run has no title"
grep -q -- '--impair=SPEC\|--impair' "$dir/site/man/weft-run.1.html" || fail "the page of weft run has no options"
grep -q '<a href="faq.html">' "$dir/site/index.html" || fail "README does not lead to the FAQ"
found=$(grep -rnoE '(src|href)="(https?:)?//[^"]*' "$dir/site" --include='*.html' | grep -E 'src=|\.(css|js)' | head -n 3)
[ -z "$found" ] || fail "the site takes from others: $found"
exit $failures
