#!/bin/bash
# faq.sh PROJECT: each message that docs/faq.md calls weft's is one of weft's.
set -u
failed=0 messages=0
while IFS= read -r message; do
	messages=$((messages + 1))
	grep -rqF -- "$message" "$1/src" || { echo "no such message: $message"; failed=1; }
done < <(sed -n '/^## What weft says/,/^## What other/s/^| `\([^`]*\)` |.*/\1/p' "$1/docs/faq.md")
[ $messages -ge 10 ] || { echo "only $messages messages found"; failed=1; }
exit $failed
