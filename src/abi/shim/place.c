/* Places a rank of a launcher's program at its host of weft run --nodes: WEFT_NODES is NAME=PORT,NAME=PORT,... and the tree of
 * device files of a host has its port in its name, behind an @. The first constructor of the shim: what reads WEFT_NODE and
 * WEFT_ROOT comes later. A process without a rank stays at the first host. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 101, NAME_BYTES = 80 };	/* 101: the first that is not reserved for the implementation */

/* Ranks on this host, as Open MPI, MPICH and Slurm tell them; or of all, of launchers that tell no others. */
static const char *const ranks[] = {
	"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_RANK", "PMIX_RANK",
};

static bool find_rank(unsigned long *rank)
{
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		const char *text = getenv(ranks[i]);
		char *end;

		if (!text || *text < '0' || *text > '9')
			continue;
		*rank = strtoul(text, &end, 10);
		if (!*end)
			return true;
	}
	return false;
}

static const char *entry_of(const char *list, unsigned long rank)
{
	unsigned long n = 1;

	for (const char *c = list; *c; c++)
		n += *c == ',';
	for (rank %= n; rank; rank--)
		list = strchr(list, ',') + 1;
	return list;
}

/* The same tree of another port: DIR/NAME@PORT or DIR/NAME@PORT-DEVICE. False: it is no host's. */
static bool name_tree(const char *root, const char *port, int digits, char tree[PATH_MAX])
{
	const char *folder = strrchr(root, '/'), *at = folder ? strchr(folder, '@') : NULL;
	int bytes;

	if (!at)
		return false;
	bytes = snprintf(tree, PATH_MAX, "%.*s%.*s%s", (int)(at + 1 - root), root, digits, port,
			 at + 1 + strspn(at + 1, "0123456789"));
	return bytes > 0 && bytes < PATH_MAX;
}

__attribute__((constructor(FIRST))) static void place(void)
{
	const char *list = getenv("WEFT_NODES"), *root = getenv("WEFT_ROOT"), *entry, *equals;
	char name[NAME_BYTES], tree[PATH_MAX];
	unsigned long rank;

	if (!list || !*list || !root || !find_rank(&rank))
		return;
	entry = entry_of(list, rank);
	equals = strchr(entry, '=');
	if (!equals || (size_t)(equals - entry) >= sizeof(name) ||
	    !name_tree(root, equals + 1, (int)strspn(equals + 1, "0123456789"), tree))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)(equals - entry), entry);
	setenv("WEFT_NODE", name, 1);
	setenv("WEFT_ROOT", tree, 1);
}
