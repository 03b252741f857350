/* NAME VALUE on each line, # before comments; names and values are those of opensm.conf, of which weft has some. An M_Key is in a
 * file, as others of the host can read the arguments of commands. */
#include "cli/manager_options.h"

#include "cli/fabric.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct fabric_head *head;
	const char *path;
	unsigned line;
};

static int wrong(const struct options *o, const char *what, const char *word)
{
	return cli_fail("m_key 0x1234; weft-fabric(1) lists the options", "%s:%u: %s: '%s'", o->path, o->line, what, word);
}

/* A number of at most this. False: the text is none. */
static bool read_number(const char *text, uint64_t most, uint64_t *number)
{
	unsigned long long value;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	value = strtoull(text, &end, 0);
	if (*end || errno || value > most)
		return false;
	*number = value;
	return true;
}

static int take_number(const struct options *o, const char *text, uint64_t most, uint64_t *number)
{
	return read_number(text, most, number) ? EXIT_OK : wrong(o, "it is no number that this option can have", text);
}

static int take_key(const struct options *o, char *text)
{
	return take_number(o, text, UINT64_MAX, &o->head->manager_m_key);
}

static int take_protection(const struct options *o, char *text)
{
	enum { PROTECT_MOST = 3 };
	uint64_t number = 0;
	int status = take_number(o, text, PROTECT_MOST, &number);

	o->head->manager_m_key_protect = (uint8_t)number;
	return status;
}

static int take_lease(const struct options *o, char *text)
{
	uint64_t number = 0;
	int status = take_number(o, text, UINT16_MAX, &number);

	o->head->manager_m_key_lease = (uint16_t)number;
	return status;
}

static int take_lanes(const struct options *o, char *text)
{
	uint64_t number = 0;
	int status = take_number(o, text, QOS_LANES_MOST, &number);

	if (status == EXIT_OK && !number)
		return wrong(o, "a link has one lane at least", text);
	o->head->manager_qos.max_vls = (uint8_t)number;
	return status;
}

static int take_limit(const struct options *o, char *text)
{
	uint64_t number = 0;
	int status = take_number(o, text, UINT8_MAX, &number);

	o->head->manager_qos.high_limit = (uint8_t)number;
	return status;
}

static int take_levels(const struct options *o, char *text)
{
	struct fabric_qos *q = &o->head->manager_qos;
	unsigned n = 0, used = 0;
	char *rest;

	for (char *word = strtok_r(text, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
		uint64_t lane;

		if (n == QOS_LEVELS || !read_number(word, QOS_NO_LANE, &lane))
			return wrong(o, "sixteen lanes are wanted, 0 to 15", word);
		q->sl2vl[n++] = (uint8_t)lane;
		used += lane != QOS_NO_LANE;
	}
	return n < QOS_LEVELS || !used ? wrong(o, "sixteen lanes are wanted, one of which is not 15", "") : EXIT_OK;
}

/* LANE:WEIGHT,... */
static int take_turns(const struct options *o, char *text, struct fabric_vlarb entry[QOS_ENTRIES])
{
	unsigned n = 0;
	char *rest;

	memset(entry, 0, QOS_ENTRIES * sizeof(*entry));
	for (char *word = strtok_r(text, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
		char *colon = strchr(word, ':');
		uint64_t lane, weight;

		if (colon)
			*colon++ = '\0';
		if (n == QOS_ENTRIES || !colon || !read_number(word, QOS_LANES_MOST - 1, &lane) ||
		    !read_number(colon, UINT8_MAX, &weight))
			return wrong(o, "up to 64 of LANE:WEIGHT are wanted, 0 to 14 and 0 to 255", word);
		entry[n++] = (struct fabric_vlarb){ (uint8_t)lane, (uint8_t)weight };
	}
	return EXIT_OK;
}

static int take_high(const struct options *o, char *text)
{
	return take_turns(o, text, o->head->manager_qos.high);
}

static int take_low(const struct options *o, char *text)
{
	return take_turns(o, text, o->head->manager_qos.low);
}

static const struct row {
	const char *name;
	int (*take)(const struct options *o, char *text);
} rows[] = {
	{ "m_key", take_key }, { "m_key_protection_level", take_protection }, { "m_key_lease_period", take_lease },
	{ "qos_max_vls", take_lanes }, { "qos_high_limit", take_limit }, { "qos_vlarb_high", take_high },
	{ "qos_vlarb_low", take_low }, { "qos_sl2vl", take_levels },
};

static int take(const struct options *o, char *line)
{
	char *rest, *name = strtok_r(line, " \t\r", &rest);

	if (!name)
		return EXIT_OK;
	while (isspace((unsigned char)*rest))
		rest++;
	for (size_t n = strlen(rest); n && isspace((unsigned char)rest[n - 1]);)
		rest[--n] = '\0';
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!strcmp(rows[i].name, name))
			return *rest ? rows[i].take(o, rest) : wrong(o, "a value is missing", name);
	}
	return wrong(o, "weft's subnet manager has no such option", name);
}

int manager_options_apply(struct fabric *f, const char *path)
{
	struct options o = { .head = f->head, .path = path };
	char *text, *at, *next;
	size_t bytes;
	int status = fabric_read_all(path, &text, &bytes);

	if (status != EXIT_OK)
		return status;
	at = realloc(text, bytes + 1);
	if (!at) {
		free(text);
		return fabric_no_memory();
	}
	text = at;
	text[bytes] = '\0';
	qos_default(&f->head->manager_qos);
	for (; status == EXIT_OK && at; at = next) {
		o.line++;
		next = strchr(at, '\n');
		if (next)
			*next++ = '\0';
		at[strcspn(at, "#")] = '\0';
		status = take(&o, at);
	}
	free(text);
	return status;
}
