/* weft env: the environment of weft run, for what cannot be started by it. */
#include "cli/daemon.h"
#include "cli/network.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/shell_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What environment_set sets. */
static const char *const names[] = {
	"LD_LIBRARY_PATH", "LD_PRELOAD", "ASAN_OPTIONS", "WEFT_DIR", "WEFT_ROOT", "WEFT_DEVICES", "WEFT_PATH", "WEFT_PROFILE",
	"WEFT_SHARED_HEAP", "WEFT_REMAP", "WEFT_ENGINE", "WEFT_NODE",
};

static void print_each(const char *before, const char *between, const char *after)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (!value)
			continue;
		printf("%s%s%s", before, names[i], between);
		shell_word(stdout, value);
		fputs(after, stdout);
	}
}

static void print_sh(void)
{
	print_each("export ", "=", "\n");
}

static void print_fish(void)
{
	print_each("set -gx ", " ", "\n");
}

/* docker run reads such a file, without quotes: a value ends with its line. */
static void print_docker(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (getenv(names[i]))
			printf("%s=%s\n", names[i], getenv(names[i]));
	}
}

/* The member "env" of a configuration in launch.json. */
static void print_vscode(void)
{
	json_t *all = json_object();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (getenv(names[i]))
			json_object_set_new(all, names[i], json_string(getenv(names[i])));
	}
	json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(all);
}

static int prepare(const struct cli_options *o)
{
	struct places p;
	struct rundir d;
	uint32_t at;
	int fd, status;

	if (places_find(&p))
		return cli_fail("mount /proc", "cannot find out where weft is installed");
	if (network_choose(o) || environment_check(&p) || daemon_directory(o->system, &d))
		return EXIT_FAILED;
	status = environment_place(o, &d, true, &fd, &at);
	if (status != EXIT_OK)
		return status;
	close(fd);
	return environment_set(o, &p, &d, at) ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
}

int cli_env(const struct cli_options *o, int argc, char **argv)
{
	static const struct { const char *name; void (*print)(void); } forms[] = {
		{ "sh", print_sh }, { "fish", print_fish }, { "docker", print_docker }, { "vscode", print_vscode },
	};
	const char *form = argc ? argv[0] : "sh";

	for (size_t i = 0; argc < 2 && i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (strcmp(form, forms[i].name) != 0)
			continue;
		if (prepare(o))
			return EXIT_FAILED;
		forms[i].print();
		return EXIT_OK;
	}
	cli_fail("weft env sh, fish, docker or vscode", "there is no form '%s'", argc > 1 ? argv[1] : form);
	return EXIT_USAGE;
}
