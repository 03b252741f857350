/* The text form of impairment: settings after commas, each for outgoing frames of every device unless prefixes say
 * otherwise. One table of settings. Numbers are read here, because strtod follows the program's locale. */
#include "link/impair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Our choices: a queue such as a switch's port has, a few frames out of order, and a reordered last frame that comes long
 * before any ACK timeout. */
enum { QUEUE = 1000, GAP = 3 };

static const wtime HOLD = 1 * WTIME_MS;

enum { MILLION = 1000000 };	/* decimals are read in millionths */

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit percents[] = { { "%", 10000 }, { 0 } };
static const struct unit times[] = { { "ns", 1 }, { "us", WTIME_US }, { "ms", WTIME_MS }, { "s", WTIME_S }, { 0 } };
static const struct unit rates[] = { { "bit", 1 }, { "Kbit", 1000 }, { "Mbit", 1000000 }, { "Gbit", 1000000000 }, { 0 } };
static const struct unit plain[] = { { "", 1 }, { 0 } };

/* Where the value goes, its kind by the member's size, what it may be. */
static const struct setting {
	const char *name;
	size_t offset, size;
	const struct unit *units;
	uint64_t least, most;
	const char *want;
} settings[] = {
#define SETTING(name, member, units, least, most, want) \
	{ name, offsetof(struct impair_rules, member), sizeof(((struct impair_rules *)0)->member), units, least, most, want }
	SETTING("loss", loss_ppm, percents, 0, MILLION, "0% to 100%"),
	SETTING("dup", dup_ppm, percents, 0, MILLION, "0% to 100%"),
	SETTING("reorder", reorder_ppm, percents, 0, MILLION, "0% to 100%"),
	SETTING("corrupt", corrupt_ppm, percents, 0, MILLION, "0% to 100%"),
	SETTING("delay", delay_ns, times, 0, 10 * WTIME_S, "0s to 10s, with ns, us, ms or s"),
	SETTING("jitter", jitter_ns, times, 0, 10 * WTIME_S, "0s to 10s, with ns, us, ms or s"),
	SETTING("hold", hold_ns, times, 1, 10 * WTIME_S, "1ns to 10s, with ns, us, ms or s"),
	SETTING("rate", rate_bps, rates, 1000, 1000 * WTIME_S, "1Kbit to 1000Gbit, with bit, Kbit, Mbit or Gbit"),
	SETTING("queue", queue_frames, plain, 1, IMPAIR_QUEUE_MOST, "1 to 65536 frames"),
	SETTING("gap", gap_frames, plain, 1, IMPAIR_GAP_MOST, "1 to 64 frames"),
	SETTING("drop-ack", drop_ack, plain, 1, MILLION, "1 to 1000000: every so many acknowledgements"),
#undef SETTING
};

static const struct {
	const char *name;
	int form, direction;	/* -1: says nothing of it */
} prefixes[] = {
	{ "out", -1, IMPAIR_OUT }, { "in", -1, IMPAIR_IN }, { "weft0", PACKET_IB, -1 }, { "weft1", PACKET_ROCE, -1 },
};

/* One setting being read. */
struct part {
	int form, direction;	/* form -1: both */
	bool has_prefix;
	char *name, *value;
};

/* "12.5" in millionths; what follows it in *rest. False: no number, or larger than any limit. */
static bool read_decimal(const char *text, uint64_t *millionths, const char **rest)
{
	uint64_t whole = 0, part = 0, place = MILLION;

	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		whole = 10 * whole + (uint64_t)(*text - '0');
		if (whole > MILLION * (uint64_t)MILLION)
			return false;
	}
	if (*text == '.') {
		for (text++; *text >= '0' && *text <= '9'; text++) {
			place /= 10;
			part += place * (uint64_t)(*text - '0');
		}
	}
	*millionths = whole * MILLION + part;
	*rest = text;
	return true;
}

static bool read_value(const char *text, const struct setting *s, uint64_t *value)
{
	uint64_t millionths;
	const char *rest;

	if (!read_decimal(text, &millionths, &rest))
		return false;
	for (const struct unit *u = s->units; u->name; u++) {
		if (strcmp(rest, u->name))
			continue;
		if (millionths / MILLION > s->most / u->factor || (u->factor == 1 && millionths % MILLION))
			return false;
		*value = millionths / MILLION * u->factor + millionths % MILLION * u->factor / MILLION;
		return *value >= s->least && *value <= s->most;
	}
	return false;
}

static void store(struct impair_rules *rules, const struct setting *s, uint64_t value)
{
	uint32_t narrow = (uint32_t)value;

	memcpy((char *)rules + s->offset, s->size == sizeof(narrow) ? (void *)&narrow : (void *)&value, s->size);
}

/* "3+7" */
static bool read_drops(const char *text, struct impair_rules *rules)
{
	unsigned n = 0;

	memset(rules->drop, 0, sizeof(rules->drop));
	for (;; text++) {
		uint64_t value = 0;

		for (; *text >= '0' && *text <= '9' && value < UINT32_MAX / 10; text++)
			value = 10 * value + (uint64_t)(*text - '0');
		if (value == 0 || n == IMPAIR_DROPS)
			return false;
		rules->drop[n++] = (uint32_t)value;
		if (*text != '+')
			return *text == '\0';
	}
}

static bool read_seed(const char *text, struct impair_spec *spec)
{
	uint64_t seed = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		unsigned digit = (unsigned)*text - '0';

		if (digit > 9 || seed > (UINT64_MAX - digit) / 10)
			return false;
		seed = 10 * seed + digit;
	}
	spec->seed = seed;
	spec->has_seed = true;
	return true;
}

static int complain(char *why, size_t room, const struct part *p, const char *want)
{
	snprintf(why, room, "%s=%s: %s is %s", p->name, p->value, p->name, want);
	return -EINVAL;
}

static bool take_prefix(struct part *p, const char *word, size_t length)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strlen(prefixes[i].name) != length || strncmp(word, prefixes[i].name, length))
			continue;
		p->has_prefix = true;
		if (prefixes[i].form >= 0)
			p->form = prefixes[i].form;
		else
			p->direction = prefixes[i].direction;
		return true;
	}
	return false;
}

/* Takes "weft1.in.delay=50us" apart. */
static int split(char *word, struct part *p, char *why, size_t room)
{
	char *dot;

	*p = (struct part){ .form = -1, .direction = IMPAIR_OUT, .name = word, .value = strchr(word, '=') };
	if (!p->value) {
		snprintf(why, room, "%s: a setting is NAME=VALUE", *word ? word : "nothing between commas");
		return -EINVAL;
	}
	*p->value++ = '\0';
	while ((dot = strchr(p->name, '.'))) {
		if (!take_prefix(p, p->name, (size_t)(dot - p->name))) {
			snprintf(why, room, "%s: before the point there may be out, in, weft0 or weft1", p->name);
			return -EINVAL;
		}
		p->name = dot + 1;
	}
	return 0;
}

static int apply(const struct part *p, struct impair_spec *spec, char *why, size_t room)
{
	const struct setting *s = NULL;
	bool is_drop = strcmp(p->name, "drop") == 0;
	struct impair_rules drops;
	uint64_t value = 0;

	if (strcmp(p->name, "seed") == 0)
		return read_seed(p->value, spec) && !p->has_prefix ? 0 : complain(why, room, p, "one number for all");
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (strcmp(p->name, settings[i].name) == 0)
			s = &settings[i];
	}
	if (!s && !is_drop) {
		snprintf(why, room, "%s: there is no such setting", p->name);
		return -EINVAL;
	}
	if (is_drop && !read_drops(p->value, &drops))
		return complain(why, room, p, "up to 16 packet numbers from 1, joined by +");
	if (s && !read_value(p->value, s, &value))
		return complain(why, room, p, s->want);
	for (int form = 0; form < IMPAIR_FORMS; form++) {
		struct impair_rules *rules = &spec->rules[form][p->direction];

		if (p->form >= 0 && form != p->form)
			continue;
		if (s)
			store(rules, s, value);
		else
			memcpy(rules->drop, drops.drop, sizeof(drops.drop));
	}
	return 0;
}

int impair_parse(const char *text, struct impair_spec *spec, char *why, size_t room)
{
	struct impair_spec made = { 0 };
	char copy[IMPAIR_TEXT], *at = copy, *word;

	if (strlen(text) >= sizeof(copy)) {
		snprintf(why, room, "it is longer than %d bytes", IMPAIR_TEXT - 1);
		return -EINVAL;
	}
	strcpy(copy, text);
	for (int i = 0; i < IMPAIR_FORMS * IMPAIR_DIRECTIONS; i++)
		made.rules[i / IMPAIR_DIRECTIONS][i % IMPAIR_DIRECTIONS] =
			(struct impair_rules){ .queue_frames = QUEUE, .gap_frames = GAP, .hold_ns = HOLD };
	while ((word = strsep(&at, ","))) {
		struct part p;

		if (split(word, &p, why, room) || apply(&p, &made, why, room))
			return -EINVAL;
	}
	*spec = made;
	return 0;
}

bool impair_rules_act(const struct impair_rules *r)
{
	return r->loss_ppm || r->dup_ppm || r->reorder_ppm || r->corrupt_ppm || r->delay_ns || r->jitter_ns || r->rate_bps ||
	       r->drop[0] || r->drop_ack;
}

bool impair_reorders(const struct impair_spec *spec, enum packet_form form)
{
	return spec->rules[form][IMPAIR_OUT].reorder_ppm || spec->rules[form][IMPAIR_IN].reorder_ppm;
}

void impair_for_process(struct impair_spec *spec, uint32_t number)
{
	spec->seed += number * 0x9e3779b97f4a7c15;	/* far from the seeds of lanes, which are neighbours */
}
