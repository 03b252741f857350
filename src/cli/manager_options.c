/* NAME VALUE on each line, # before comments; names and values are those of opensm.conf, of which weft has some. An M_Key is in a
 * file, as others of the host can read the arguments of commands. */
#include "cli/manager_options.h"

#include "cli/fabric.h"
#include "cli/number.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct reading {
	struct manager_options *to;
	const char *path;
	unsigned line;
};

static int wrong(const struct reading *r, const char *what, const char *word)
{
	return cli_fail("m_key 0x1234; weft-fabric(1) lists the options", "%s:%u: %s: '%s'", r->path, r->line, what, word);
}

static int take_number(const struct reading *r, const char *text, uint64_t most, uint64_t *number)
{
	return number_read(text, most, number) ? EXIT_OK : wrong(r, "it is no number that this option can have", text);
}

static int take_byte(const struct reading *r, const char *text, uint64_t most, uint8_t *byte)
{
	uint64_t number = 0;
	int status = take_number(r, text, most, &number);

	*byte = (uint8_t)number;
	return status;
}

static int take_priority(const struct reading *r, char *text)
{
	enum { PRIORITY_MOST = 15 };	/* IBA 14.2.5.13: four bits */

	return take_byte(r, text, PRIORITY_MOST, &r->to->priority);
}

static int take_lmc(const struct reading *r, char *text)
{
	r->to->has_lmc = true;
	return take_byte(r, text, LMC_MOST, &r->to->lmc);
}

/* Everybody would have one of 0 (IBA 14.4.1: what is sent without a key has that). */
static int take_sm_key(const struct reading *r, char *text)
{
	int status = take_number(r, text, UINT64_MAX, &r->to->sm_key);

	return status == EXIT_OK && !r->to->sm_key ? wrong(r, "an SM_Key is not 0", text) : status;
}

static int take_key(const struct reading *r, char *text)
{
	return take_number(r, text, UINT64_MAX, &r->to->m_key);
}

static int take_protection(const struct reading *r, char *text)
{
	enum { PROTECT_MOST = 3 };

	return take_byte(r, text, PROTECT_MOST, &r->to->m_key_protect);
}

static int take_lease(const struct reading *r, char *text)
{
	uint64_t number = 0;
	int status = take_number(r, text, UINT16_MAX, &number);

	r->to->m_key_lease = (uint16_t)number;
	return status;
}

/* What is less than 8 us is no time for traps, nor for answers. */
static int take_timeout(const struct reading *r, char *text)
{
	enum { TIMEOUT_MOST = 31 };	/* IBA 14.2.5.6: five bits */
	int status = take_byte(r, text, TIMEOUT_MOST, &r->to->subnet_timeout);

	return status == EXIT_OK && !r->to->subnet_timeout ? wrong(r, "a timeout is 1 at least", text) : status;
}

static int take_lanes(const struct reading *r, char *text)
{
	int status = take_byte(r, text, QOS_LANES_MOST, &r->to->qos.max_vls);

	return status == EXIT_OK && !r->to->qos.max_vls ? wrong(r, "a link has one lane at least", text) : status;
}

static int take_limit(const struct reading *r, char *text)
{
	return take_byte(r, text, UINT8_MAX, &r->to->qos.high_limit);
}

static int take_levels(const struct reading *r, char *text)
{
	struct fabric_qos *q = &r->to->qos;
	unsigned n = 0, used = 0;
	char *rest;

	for (char *word = strtok_r(text, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
		uint64_t lane;

		if (n == QOS_LEVELS || !number_read(word, QOS_NO_LANE, &lane))
			return wrong(r, "sixteen lanes are wanted, 0 to 15", word);
		q->sl2vl[n++] = (uint8_t)lane;
		used += lane != QOS_NO_LANE;
	}
	return n < QOS_LEVELS || !used ? wrong(r, "sixteen lanes are wanted, one of which is not 15", "") : EXIT_OK;
}

/* LANE:WEIGHT,... */
static int take_turns(const struct reading *r, char *text, struct fabric_vlarb entry[QOS_ENTRIES])
{
	unsigned n = 0;
	char *rest;

	memset(entry, 0, QOS_ENTRIES * sizeof(*entry));
	for (char *word = strtok_r(text, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
		char *colon = strchr(word, ':');
		uint64_t lane, weight;

		if (colon)
			*colon++ = '\0';
		if (n == QOS_ENTRIES || !colon || !number_read(word, QOS_LANES_MOST - 1, &lane) ||
		    !number_read(colon, UINT8_MAX, &weight))
			return wrong(r, "up to 64 of LANE:WEIGHT are wanted, 0 to 14 and 0 to 255", word);
		entry[n++] = (struct fabric_vlarb){ (uint8_t)lane, (uint8_t)weight };
	}
	return EXIT_OK;
}

static int take_high(const struct reading *r, char *text)
{
	return take_turns(r, text, r->to->qos.high);
}

static int take_low(const struct reading *r, char *text)
{
	return take_turns(r, text, r->to->qos.low);
}

/* Of names behind each other the first that can be: both can in any topology. (null) is what opensm.conf has for none. */
static int take_routing(const struct reading *r, char *text)
{
	static const struct {
		const char *name;
		enum route_choice choice;
	} kinds[] = { { "minhop", ROUTE_ALWAYS_MIN_HOP }, { "updn", ROUTE_ALWAYS_UP_DOWN } };
	enum route_choice first = ROUTE_AUTO;
	bool is_default = !strcmp(text, "(null)");
	char *rest;

	for (char *word = is_default ? NULL : strtok_r(text, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
		size_t i = 0;

		while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].name, word) != 0)
			i++;
		if (i == sizeof(kinds) / sizeof(kinds[0]))
			return wrong(r, "minhop, updn or both are wanted, or (null)", word);
		first = first == ROUTE_AUTO ? kinds[i].choice : first;
	}
	if (first == ROUTE_AUTO && !is_default)
		return wrong(r, "minhop, updn or both are wanted, or (null)", "");
	r->to->routing = first;
	return EXIT_OK;
}

static const struct row {
	const char *name;
	int (*take)(const struct reading *r, char *text);
} rows[] = {
	{ "sm_priority", take_priority }, { "lmc", take_lmc }, { "sm_key", take_sm_key },
	{ "m_key", take_key }, { "m_key_protection_level", take_protection }, { "m_key_lease_period", take_lease },
	{ "subnet_timeout", take_timeout },
	{ "qos_max_vls", take_lanes }, { "qos_high_limit", take_limit }, { "qos_vlarb_high", take_high },
	{ "qos_vlarb_low", take_low }, { "qos_sl2vl", take_levels }, { "routing_engine", take_routing },
};

static int take(const struct reading *r, char *line)
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
			return *rest ? rows[i].take(r, rest) : wrong(r, "a value is missing", name);
	}
	return wrong(r, "weft's subnet manager has no such option", name);
}

static int read_lines(struct manager_options *o, const char *path)
{
	struct reading r = { .to = o, .path = path };
	char *text, *at, *next;
	size_t bytes;
	int status = fabric_read_text(path, &text, &bytes);

	if (status != EXIT_OK)
		return status;
	at = text;
	for (; status == EXIT_OK && at; at = next) {
		r.line++;
		next = strchr(at, '\n');
		if (next)
			*next++ = '\0';
		at[strcspn(at, "#")] = '\0';
		status = take(&r, at);
	}
	free(text);
	return status;
}

int manager_options_read(struct manager_options *o, const char *path)
{
	*o = (struct manager_options){ .priority = 0 };
	qos_default(&o->qos);
	return path ? read_lines(o, path) : EXIT_OK;
}

void manager_options_apply(const struct manager_options *o, struct fabric_head *head)
{
	head->manager_priority = o->priority;
	head->manager_sm_key = o->sm_key;
	head->manager_m_key = o->m_key;
	head->manager_m_key_protect = o->m_key_protect;
	head->manager_m_key_lease = o->m_key_lease;
	head->manager_subnet_timeout = o->subnet_timeout;
	head->manager_routing = (uint8_t)o->routing;
	head->manager_qos = o->qos;
}
