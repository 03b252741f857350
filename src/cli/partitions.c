/* NAME=KEY[,ipoib][,defmember=full]: MEMBER[=full|limited], ...; with a # before comments. KEY is 15 bits. MEMBER is a host or
 * a switch by its name, NAME:PORT, 0x and the GUID of a port, ALL, ALL_CAS, ALL_SWITCHES, or SELF, the manager. A port that is
 * named as a full member is one, whatever else is said of it. Without the default key in the file all are full members of it;
 * the manager always is, as others ask its administration by that key. */
#include "cli/partitions.h"

#include "cli/fabric.h"
#include "fabric/host.h"
#include "wire/pkey.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct partitions {
	struct fabric *f;
	const char *path;
	uint32_t self;
	unsigned line;			/* where the statement at hand begins */
	bool has_default;
};

static int wrong(const struct partitions *p, const char *what, const char *word)
{
	return cli_fail("NAME=0x8001: h1=full, h2; weft-fabric(1) tells more", "%s:%u: %s: '%s'", p->path, p->line, what, word);
}

/* Without spaces at both ends; it changes the text. */
static char *trim(char *text)
{
	size_t n;

	while (isspace((unsigned char)*text))
		text++;
	for (n = strlen(text); n && isspace((unsigned char)text[n - 1]);)
		text[--n] = '\0';
	return text;
}

static bool is_end(const struct fabric *f, uint32_t port)
{
	return fabric_is_switch(f, f->owner[port]) == !fabric_port_number(f, port);
}

/* Where the port has this key, or is to have it; NULL: the table is full. A place may be free before others that are taken. */
static uint16_t *place_of_key(uint16_t keys[PORT_PKEYS], uint16_t key)
{
	uint16_t *free_place = NULL;

	for (unsigned i = PORT_PKEYS; i-- > 0;) {
		if (pkey_is_same_partition(keys[i], key))
			return keys + i;
		if (!keys[i])
			free_place = keys + i;
	}
	return free_place;
}

/* False: the table is full. */
static bool add_key(const struct partitions *p, uint32_t port, uint16_t key, bool is_full)
{
	uint16_t *place = place_of_key(fabric_pkeys(p->f, port), key);

	if (place)
		*place = (uint16_t)(*place | key | (is_full ? PKEY_FULL : 0));
	return place;
}

static void forget_default(struct partitions *p)
{
	for (uint32_t port = 0; !p->has_default && port < p->f->ports; port++) {
		if (is_end(p->f, port))
			fabric_pkeys(p->f, port)[0] = 0;
	}
	p->has_default = true;
}

static bool is_meant(const struct partitions *p, const char *word, uint32_t port)
{
	bool is_switch = fabric_is_switch(p->f, p->f->owner[port]);

	return !strcmp(word, "ALL") || (!strcmp(word, "ALL_CAS") && !is_switch) || (!strcmp(word, "ALL_SWITCHES") && is_switch) ||
	       (!strcmp(word, "SELF") && port == p->self);
}

static uint32_t find_guid(const struct fabric *f, const char *word)
{
	char *end;
	uint64_t guid = strtoull(word, &end, 16);
	uint32_t port = 0;

	while (port < f->ports && !(is_end(f, port) && f->port[port].guid == guid))
		port++;
	return *end || port == f->ports ? PORT_NONE : port;
}

static int add_member(const struct partitions *p, char *word, uint16_t key, bool is_full)
{
	char *how = strchr(word, '=');
	uint32_t one = PORT_NONE, place;
	bool is_some = false, is_host;

	if (how)
		*how++ = '\0';
	word = trim(word);
	how = how ? trim(how) : NULL;
	if (how && strcmp(how, "full") && strcmp(how, "limited"))
		return wrong(p, "a member is full or limited", how);
	is_full = how ? !strcmp(how, "full") : is_full;
	if (strncmp(word, "ALL", 3) && strcmp(word, "SELF"))
		one = strncmp(word, "0x", 2) ? host_find_port(p->f, word) : find_guid(p->f, word);
	place = host_find_place(p->f, word);
	is_host = place != PORT_NONE && place >= p->f->ports;	/* of several adapters, whose ports are all meant */
	for (uint32_t port = 0; port < p->f->ports; port++) {
		if (!is_end(p->f, port) ||
		    (port != one && !is_meant(p, word, port) && !(is_host && host_port_number(p->f, place, port))))
			continue;
		is_some = true;
		if (!add_key(p, port, key, is_full))
			return wrong(p, "a port of it has no place for another key", word);
	}
	return is_some ? EXIT_OK : wrong(p, "the topology has no such port", word);
}

/* What is before the colon: the key, and what members are unless they say. */
static int read_head(struct partitions *p, char *head, uint16_t *key, bool *is_full)
{
	char *rest, *word = strtok_r(head, ",", &rest), *value = word ? strchr(word, '=') : NULL, *end = NULL;
	unsigned long number = value ? strtoul(value + 1, &end, 0) : 0;

	if (!value || !(number & ~(unsigned long)PKEY_FULL) || number > UINT16_MAX || *trim(end))
		return wrong(p, "a partition is NAME=KEY, of 15 bits that are not all 0", word ? word : "");
	*key = (uint16_t)(number & ~(unsigned long)PKEY_FULL);
	*is_full = false;
	while ((word = strtok_r(NULL, ",", &rest))) {
		word = trim(word);
		if (!strcmp(word, "defmember=full"))
			*is_full = true;
		else if (strcmp(word, "defmember=limited") && strcmp(word, "ipoib"))
			return wrong(p, "it is none of ipoib, defmember=full and defmember=limited", word);
	}
	if (*key == (PKEY_DEFAULT & ~PKEY_FULL))
		forget_default(p);
	return EXIT_OK;
}

static int take(struct partitions *p, char *statement)
{
	char *members = strchr(statement, ':'), *rest, *word;
	bool is_full = false;
	uint16_t key = 0;
	int status;

	if (!members)
		return wrong(p, "members are missing behind a colon", trim(statement));
	*members++ = '\0';
	status = read_head(p, statement, &key, &is_full);
	for (word = strtok_r(members, ",", &rest); status == EXIT_OK && word; word = strtok_r(NULL, ",", &rest))
		status = add_member(p, word, key, is_full);
	return status;
}

static int finish(const struct partitions *p)
{
	struct fabric *f = p->f;

	if (p->self < f->ports && !add_key(p, p->self, PKEY_DEFAULT, true))
		return wrong(p, "the manager's port has no place for the default key", "SELF");
	memcpy(fabric_partitions(f, 0), fabric_pkeys(f, 0), (size_t)f->ports * PORT_PKEYS * sizeof(uint16_t));
	return EXIT_OK;
}

static void blank_comments(char *text)
{
	bool is_comment = false;

	for (; *text; text++) {
		is_comment = *text != '\n' && (is_comment || *text == '#');
		*text = is_comment ? ' ' : *text;
	}
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

int partitions_apply(struct fabric *f, const char *path, uint32_t self)
{
	struct partitions p = { .f = f, .path = path, .self = self, .line = 1 };
	char *text, *at, *next;
	size_t bytes;
	unsigned lines;
	int status = fabric_read_text(path, &text, &bytes);

	if (status != EXIT_OK)
		return status;
	at = text;
	blank_comments(text);
	for (; status == EXIT_OK && at; at = next) {
		next = strchr(at, ';');
		if (next)
			*next++ = '\0';
		for (; isspace((unsigned char)*at); at++)
			p.line += *at == '\n';
		lines = count_lines(at);
		if (*at)
			status = take(&p, at);
		p.line += lines;
	}
	free(text);
	return status == EXIT_OK ? finish(&p) : status;
}
