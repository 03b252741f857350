/* The text form of impairment: settings after commas, each for outgoing frames of every device unless prefixes say
 * otherwise. One table of settings. Numbers are read here, because strtod follows the program's locale. */
#include "impair/impair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Our choices: a queue such as a switch's port has, a few frames out of order, a reordered last frame that comes long before any
 * ACK timeout, and bursts of some frames, all of which are lost. */
enum { QUEUE = 1000, GAP = 3, BURST = 8 };

static const wtime HOLD = 1 * WTIME_MS;

enum { MILLION = 1000000 };	/* decimals are read in millionths */

#define DAY (24 * 3600 * WTIME_S)

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
	SETTING("loss", loss_ppm, percents, 0, MILLION, "0% to 100%, with the sign %"),
	SETTING("dup", dup_ppm, percents, 0, MILLION, "0% to 100%, with the sign %"),
	SETTING("reorder", reorder_ppm, percents, 0, MILLION, "0% to 100%, with the sign %"),
	SETTING("corrupt", corrupt_ppm, percents, 0, MILLION, "0% to 100%, with the sign %"),
	SETTING("burst", burst_ppm, percents, 0, MILLION, "0% to 100%, with the sign %"),
	SETTING("burst-loss", burst_loss_ppm, percents, 0, MILLION, "0% to 100%, with the sign %"),
	SETTING("burst-length", burst_frames, plain, 1, MILLION, "1 to 1000000 frames"),
	SETTING("delay", delay_ns, times, 0, 10 * WTIME_S, "0s to 10s, with ns, us, ms or s"),
	SETTING("jitter", jitter_ns, times, 0, 10 * WTIME_S, "0s to 10s, with ns, us, ms or s"),
	SETTING("hold", hold_ns, times, 1, 10 * WTIME_S, "1ns to 10s, with ns, us, ms or s"),
	SETTING("rate", rate_bps, rates, 1000, 1000 * WTIME_S, "1Kbit to 1000Gbit, with bit, Kbit, Mbit or Gbit"),
	SETTING("queue", queue_frames, plain, 1, IMPAIR_QUEUE_MOST, "1 to 65536 frames"),
	SETTING("gap", gap_frames, plain, 1, IMPAIR_GAP_MOST, "1 to 64 frames"),
	SETTING("drop-ack", drop_ack, plain, 1, MILLION, "1 to 1000000: every so many acknowledgements"),
#undef SETTING
};

/* Devices are named weft0, weft1 ... by their index. */
static const char device_name[] = "weft";
enum { DEVICE_NAME = sizeof(device_name) - 1 };

/* One setting being read. */
struct part {
	int device, direction;	/* -1: none said */
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

bool impair_parse_time(const char *text, wtime most, wtime *ns)
{
	return read_value(text, &(struct setting){ .units = times, .least = 1, .most = most }, ns);
}

bool impair_parse_share(const char *text, uint32_t *ppm)
{
	uint64_t value;

	if (!read_value(text, &(struct setting){ .units = percents, .most = MILLION }, &value))
		return false;
	*ppm = (uint32_t)value;
	return true;
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

/* "2s..4.5s" */
static bool read_window(const char *text, struct impair_rules *rules)
{
	static const struct setting from = { .units = times, .most = DAY }, until = { .units = times, .least = 1, .most = DAY };
	const char *dots = strstr(text, "..");
	char first[32];

	if (!dots || dots - text >= (ptrdiff_t)sizeof(first))
		return false;
	memcpy(first, text, (size_t)(dots - text));
	first[dots - text] = '\0';
	return read_value(first, &from, &rules->from_ns) && read_value(dots + 2, &until, &rules->until_ns) &&
	       rules->from_ns < rules->until_ns;
}

static bool read_partition(const char *text, struct impair_rules *rules)
{
	return partition_parse(text, &rules->partition);
}

/* Settings that are no number. */
static const struct text_setting {
	const char *name;
	bool (*read)(const char *text, struct impair_rules *rules);
	const char *want;
	bool is_mutual;		/* of both directions, where none is said */
} text_settings[] = {
	{ "drop", read_drops, "up to 16 packet numbers from 1, joined by +", false },
	{ "at", read_window, "two times as in 2s..4s, the second one later and at most a day", false },
	{ "partition", read_partition, "some of lid:N, gid:ADDRESS, slot:N and process:N, joined by +; weft impair: pid:N too",
	  true },
};

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
	int direction = length == 3 && strncmp(word, "out", length) == 0 ? IMPAIR_OUT :
			length == 2 && strncmp(word, "in", length) == 0 ? IMPAIR_IN : -1;

	if (direction >= 0) {
		if (p->direction >= 0)
			return false;
		p->direction = direction;
		return true;
	}
	if (p->device >= 0 || length != DEVICE_NAME + 1 || strncmp(word, device_name, DEVICE_NAME) != 0)
		return false;
	p->device = word[DEVICE_NAME] - '0';
	return p->device >= 0 && p->device < IMPAIR_DEVICES;
}

/* Takes "weft1.in.delay=50us" apart. */
static int split(char *word, struct part *p, char *why, size_t room)
{
	char *dot;

	*p = (struct part){ .device = -1, .direction = -1, .name = word, .value = strchr(word, '=') };
	if (!p->value) {
		snprintf(why, room, "%s: a setting is NAME=VALUE", *word ? word : "nothing between commas");
		return -EINVAL;
	}
	*p->value++ = '\0';
	while ((dot = strchr(p->name, '.'))) {
		if (!take_prefix(p, p->name, (size_t)(dot - p->name))) {
			snprintf(why, room, "%s: before the name there may be one of out and in, and one of weft0 to weft%d",
				 p->name, IMPAIR_DEVICES - 1);
			return -EINVAL;
		}
		p->name = dot + 1;
	}
	return 0;
}

static const struct setting *find_setting(const char *name)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (strcmp(name, settings[i].name) == 0)
			return &settings[i];
	return NULL;
}

static const struct text_setting *find_text_setting(const char *name)
{
	for (size_t i = 0; i < sizeof(text_settings) / sizeof(text_settings[0]); i++)
		if (strcmp(name, text_settings[i].name) == 0)
			return &text_settings[i];
	return NULL;
}

static bool read_part(const struct part *p, struct impair_rules *rules)
{
	const struct setting *s = find_setting(p->name);
	uint64_t value;

	if (!s)
		return find_text_setting(p->name)->read(p->value, rules);
	if (!read_value(p->value, s, &value))
		return false;
	store(rules, s, value);
	return true;
}

/* fail= and event= add to those before them. */
static int apply_fault(const struct part *p, bool is_event, struct impair_spec *spec, char *why, size_t room)
{
	struct device_fault f;

	if (spec->faults == DEVICE_FAULTS) {
		snprintf(why, room, "%s=%s: there are more than %d such settings", p->name, p->value, DEVICE_FAULTS);
		return -EINVAL;
	}
	if (p->direction >= 0 || !device_fault_parse(p->value, is_event, &f))
		return complain(why, room, p, is_event ? "EVENT, and perhaps :TIME or :VERB:CALLS, as qp_fatal:post_send:100" :
							 "VERB:ERROR, and perhaps :CALLS, as reg_mr:ENOMEM:3");
	f.devices = p->device < 0 ? ~0u : 1u << p->device;
	spec->fault[spec->faults++] = f;
	return 0;
}

static int apply(const struct part *p, struct impair_spec *spec, char *why, size_t room)
{
	const struct setting *s = find_setting(p->name);
	const struct text_setting *l = find_text_setting(p->name);

	if (strcmp(p->name, "seed") == 0)
		return p->device < 0 && p->direction < 0 && read_seed(p->value, spec) ? 0 :
			complain(why, room, p, "one number for all");
	if (p->device >= 0)
		spec->named |= 1u << p->device;
	if (strcmp(p->name, "fail") == 0 || strcmp(p->name, "event") == 0)
		return apply_fault(p, *p->name == 'e', spec, why, room);
	if (!s && !l) {
		snprintf(why, room, "%s: there is no such setting", p->name);
		return -EINVAL;
	}
	for (int i = 0; i < IMPAIR_DEVICES * IMPAIR_DIRECTIONS; i++) {
		int device = i / IMPAIR_DIRECTIONS, direction = i % IMPAIR_DIRECTIONS;

		if (p->device >= 0 && device != p->device)
			continue;
		if (direction != (p->direction < 0 ? IMPAIR_OUT : p->direction) && !(p->direction < 0 && l && l->is_mutual))
			continue;
		if (!read_part(p, &spec->rules[device][direction]))
			return complain(why, room, p, s ? s->want : l->want);
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
	for (int i = 0; i < IMPAIR_DEVICES * IMPAIR_DIRECTIONS; i++)
		made.rules[i / IMPAIR_DIRECTIONS][i % IMPAIR_DIRECTIONS] =
			(struct impair_rules){ .queue_frames = QUEUE, .gap_frames = GAP, .hold_ns = HOLD,
						.burst_loss_ppm = MILLION, .burst_frames = BURST };
	while ((word = strsep(&at, ","))) {
		struct part p;

		if (split(word, &p, why, room) || apply(&p, &made, why, room))
			return -EINVAL;
	}
	*spec = made;
	return 0;
}

int impair_set_seed(const char *text, uint64_t seed, char *to, size_t room)
{
	size_t at = 0;

	for (const char *end; *text; text = *end ? end + 1 : end) {
		end = text + strcspn(text, ",");
		if (strncmp(text, "seed=", 5) != 0)
			at += (size_t)snprintf(to + at, room - at, "%.*s,", (int)(end - text), text);
		if (at >= room)
			return -ENAMETOOLONG;
	}
	at += (size_t)snprintf(to + at, room - at, "seed=%llu", (unsigned long long)seed);
	return at < room ? 0 : -ENAMETOOLONG;
}

bool impair_rules_act(const struct impair_rules *r)
{
	return r->loss_ppm || r->burst_ppm || r->dup_ppm || r->reorder_ppm || r->corrupt_ppm || r->delay_ns || r->jitter_ns ||
	       r->rate_bps || r->drop[0] || r->drop_ack || r->partition.peers;
}

bool impair_reorders(const struct impair_spec *spec, unsigned device)
{
	return spec->rules[device][IMPAIR_OUT].reorder_ppm || spec->rules[device][IMPAIR_IN].reorder_ppm;
}

void impair_for_process(struct impair_spec *spec, uint32_t number)
{
	spec->seed += number * 0x9e3779b97f4a7c15;	/* far from the seeds of lanes, which are neighbours */
}
