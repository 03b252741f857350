#!/bin/bash
# completion.sh BIN: bash completes every subcommand and every option that the help names; zsh and fish can read theirs.
set -u -o pipefail
PATH=$1:$PATH
failed=0
fail() { echo "FAILED: $*"; failed=1; }
# complete WORD...: what bash offers for the last word
complete_words() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_weft
	printf '%s\n' "${COMPREPLY[@]}" | sort
}
source <(weft completion bash) || fail "bash does not read its completion"
commands=$(weft --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort)
[ "$(wc -w <<<"$commands")" -gt 10 ] || fail "the help names no commands: $commands"
[ "$(complete_words weft '')" = "$commands" ] || fail "offered: $(complete_words weft '')"
[ "$(complete_words weft coun)" = counters ] || fail "coun becomes $(complete_words weft coun)"
fish=$(weft completion fish)
zsh=$(weft completion zsh)
for command in $commands; do
	options=$(weft "$command" --help | grep -oE '^  +(-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort)
	[ "$(complete_words weft "$command" --)" = "$options" ] ||
		fail "weft $command: offered: $(complete_words weft "$command" --); help: $options"
	for option in $options; do
		grep -q -- "_from $command' -l ${option#--} " <<<"$fish " || fail "fish does not know $command $option"
		grep -q -- "	$command) compadd -- .*$option" <<<"$zsh" || fail "zsh does not know $command $option"
	done
done
for shell in zsh fish; do
	! command -v $shell >/dev/null || weft completion $shell | $shell -n || fail "$shell does not read its completion"
done
out=$(weft completion csh 2>&1) && fail "csh is taken"
grep -q "'csh' is not a shell that is known" <<<"$out" || fail "of csh is said: $out"
exit $failed
