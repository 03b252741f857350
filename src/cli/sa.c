/* weft sa: asks subnet administration of the network's fabric from one of its hosts, by the seed's protocol or today's. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/node_mads.h"
#include "cli/number.h"
#include "cli/output.h"
#include "cli/sa_records.h"
#include "control/sa_client.h"
#include "mgmt/transaction.h"
#include "wire/sa.h"
#include "wire/sa_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "weft sa gettable nodes --node HOST; weft sa getbulk, weft sa config FILE; man weft-sa";

struct request {
	struct sa_client_question q;
	const char *node;
	uint8_t *records;		/* owned */
};

/* ---- the command line ---- */

static int wrong(const char *what, const char *word)
{
	cli_fail(usage, "%s: '%s'", what, word);
	return EXIT_USAGE;
}

/* key=N, window=N, lid=N, retries=N, bits=lsb, bits=msb. */
static int take_setting(struct request *r, const char *word)
{
	const char *value = strchr(word, '=');
	uint64_t number;

	if (r->q.class_version != SERIES_CLASS_VERSION && strncmp(word, "key=", 4) && strncmp(word, "lid=", 4))
		return wrong("today's protocol has key= and lid= alone", word);
	if (!strcmp(word, "bits=lsb") || !strcmp(word, "bits=msb")) {
		r->q.is_lsb_first = !strcmp(word, "bits=lsb");
		return EXIT_OK;
	}
	if (!value || !number_read(value + 1, UINT64_MAX, &number))
		return wrong("it is no NAME=NUMBER", word);
	if (!strncmp(word, "key=", 4))
		r->q.key = number;
	else if (!strncmp(word, "window=", 7) && number <= UINT16_MAX)
		r->q.window = (uint16_t)number;
	else if (!strncmp(word, "lid=", 4) && number <= UINT16_MAX)
		r->q.lid = (uint16_t)number;
	else if (!strncmp(word, "retries=", 8) && number <= SA_CLIENT_RETRIES)
		r->q.retries = (uint8_t)number;
	else
		return wrong("there is no such setting, or no such value", word);
	return EXIT_OK;
}

static int take_file(struct request *r, const char *path)
{
	uint32_t line = 0;
	int err = sa_records_read(path, r->q.key, &r->records, &r->q.bytes, &line);

	r->q.records = r->records;
	if (!err)
		return EXIT_OK;
	if (err == -EINVAL)
		return cli_fail("lines are: add ID TEXT, edit ID TEXT, delete ID", "%s: line %u is none of these", path, line);
	return cli_fail(NULL, "%s: %s", path, strerror(-err));
}

static int take_method(struct request *r, const char *name, bool is_seed)
{
	if (!strcmp(name, "gettable"))
		r->q.method = is_seed ? TXN_GET_TABLE : SA_GET_TABLE;
	else if (!strcmp(name, "getbulk") && is_seed)
		r->q.method = TXN_GET_BULK;
	else if (!strcmp(name, "config") && is_seed)
		r->q.method = TXN_CONFIG;
	else
		return wrong(is_seed ? "it is none of gettable, getbulk, config" : "today's protocol has gettable alone", name);
	return EXIT_OK;
}

static int take_arguments(struct request *r, const struct cli_options *o, int argc, char **argv)
{
	bool is_seed = !o->profile || !strcmp(o->profile, "seed"), is_named;
	int status;

	if (!is_seed && strcmp(o->profile, "standard") != 0)
		return wrong("--profile is seed or standard", o->profile);
	if (!argc)
		return wrong("what is asked for is missing", "");
	r->q.retries = SA_CLIENT_RETRIES;
	r->q.class_version = is_seed ? SERIES_CLASS_VERSION : SA_CLASS_VERSION;
	r->node = o->node ? o->node : getenv("WEFT_NODE");
	status = take_method(r, argv[0], is_seed);
	is_named = strcmp(argv[0], "getbulk") != 0;
	for (int i = is_named ? 2 : 1; status == EXIT_OK && i < argc; i++)
		status = take_setting(r, argv[i]);
	if (status != EXIT_OK)
		return status;
	if (is_named && argc < 2)
		return wrong("a table or a file is missing behind", argv[0]);
	if (!r->node || !*r->node)
		return wrong("--node HOST is missing: a host of the fabric, which asks", argv[0]);
	if (!strcmp(argv[0], "config"))
		return take_file(r, argv[1]);
	if (is_named && !sa_records_find(argv[1], &r->q.attribute))
		return wrong("it is no table (nodes, paths, links, kept and others) and no number of an attribute", argv[1]);
	return EXIT_OK;
}

/* ---- asking ---- */

static int tell(const struct request *r, const struct sa_client_answer *a, int err)
{
	if (err == -ETIMEDOUT)
		return cli_fail(r->q.class_version == SERIES_CLASS_VERSION ? "weft fabric check says whether paths lead there" :
				"weft fabric load with a subnet manager, or opensm, answers this class version",
				"no answer from LID %u; packets sent: %llu", r->q.lid, (unsigned long long)a->sent);
	if (err == -ECONNRESET && r->q.class_version == SERIES_CLASS_VERSION && r->q.method == TXN_CONFIG)
		return cli_fail("nothing of it is kept, nor what Configs before it have added: send them all again",
				"weftd has ended before the Config was answered");
	if (err == -ECONNRESET)
		return cli_fail("ask again: the next weftd takes up the fabric", "weftd has ended before the answer was whole");
	return cli_fail(NULL, "it cannot be asked: %s", strerror(-err));
}

static int ask(const struct cli_options *o, struct request *r, struct sa_client_answer *a)
{
	struct control_agent agent = sa_client_agent(r->q.class_version);
	struct node_mads file;
	struct rundir d;
	int err;

	if (daemon_directory(o->system, &d) || node_mads_open(&d, r->node, &agent, sa_client_buffers(&r->q), &file))
		return EXIT_FAILED;
	if (!r->q.lid)
		r->q.lid = r->q.class_version == SERIES_CLASS_VERSION ? file.seed_lid : file.sa_lid;
	r->q.times = file.times;
	err = sa_client_ask(file.fd, file.agent, &r->q, a);
	close(file.fd);
	return err ? tell(r, a, err) : EXIT_OK;
}

int cli_sa(const struct cli_options *o, int argc, char **argv)
{
	struct request r = { .node = NULL };
	struct sa_client_answer a = { .status = 0 };
	int status = take_arguments(&r, o, argc, argv);

	if (status == EXIT_OK)
		status = ask(o, &r, &a);
	if (status == EXIT_OK)
		status = sa_records_show(&r.q, &a, o->json);
	free(r.records);
	free(a.data);
	return status;
}
