/* weft shell: the user's shell in the environment of weft run, with a mark in its prompt. */
#include "cli/cli.h"
#include "cli/run.h"
#include "cli/stats.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARGUMENTS = 64 };	/* of the shell, at most */

/* Bash sets its prompt in its own file, so the mark comes after that. It has read all of this when it closes the descriptor. */
static const char bash_file[] =
	"[ ! -r /etc/bash.bashrc ] || . /etc/bash.bashrc\n"
	"[ ! -r ~/.bashrc ] || . ~/.bashrc\n"
	"PS1=\"(weft) $PS1\"\n"
	"exec %d<&-\n";

static const char fish_commands[] =
	"functions -q fish_prompt; and functions -c fish_prompt weft_prompt; "
	"function fish_prompt; echo -n '(weft) '; functions -q weft_prompt; and weft_prompt; or echo -n '> '; end";

static const char *shell_path(void)
{
	const char *shell = getenv("SHELL");

	return shell && *shell ? shell : "/bin/sh";
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* An open file with these commands, whose name is written to `path`. -1: errno. */
static int make_file(char path[32])
{
	char text[sizeof(bash_file) + 16];
	int fd = memfd_create("weft-shell", 0), length;

	if (fd < 0)
		return -1;
	length = snprintf(text, sizeof(text), bash_file, fd);
	if (write(fd, text, (size_t)length) != length) {
		close(fd);
		return -1;
	}
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return 0;
}

/* The words that give an interactive shell its mark; *n counts up. An exit status. */
static int mark_prompt(const char *name, char file[32], const char *words[], int *n)
{
	if (strcmp(name, "bash") == 0) {
		if (make_file(file))
			return cli_fail(NULL, "no file for the shell's commands: %s", strerror(errno));
		words[(*n)++] = "--rcfile";
		words[(*n)++] = file;
	} else if (strcmp(name, "fish") == 0) {
		words[(*n)++] = "-C";
		words[(*n)++] = fish_commands;
	} else if (setenv("PS1", "(weft) $ ", 1)) {
		return cli_fail(NULL, "%s", strerror(errno));
	}
	return EXIT_OK;
}

int cli_shell(const struct cli_options *o, int argc, char **argv)
{
	const char *shell = shell_path(), *words[ARGUMENTS] = { shell };
	char file[32];
	int n = 1;

	if (argc > ARGUMENTS - 4)
		return cli_fail("write them to a file", "the shell has too many arguments");
	if (run_check(o))
		return EXIT_USAGE;
	if (run_prepare(o))
		return EXIT_FAILED;
	if (setenv("WEFT_SHELL", "1", 1))
		return cli_fail(NULL, "%s", strerror(errno));
	if (argc == 0 && mark_prompt(name_of(shell), file, words, &n))
		return EXIT_FAILED;
	for (int i = 0; i < argc; i++)
		words[n++] = argv[i];
	words[n] = NULL;
	return o->stats ? stats_run(o, (char **)(uintptr_t)words) : run_execute((char **)(uintptr_t)words);
}
