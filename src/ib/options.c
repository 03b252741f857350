/* The text form of a profile, as `weft run --profile` takes it: its name, then settings after commas. */
#include "ib/ib.h"
#include "multipath/config.h"
#include "wire/header.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MULTIPATH_PATHS = 4 };	/* our choice: as many as the UDP link has source ports */

static bool number(const char *text, unsigned long least, unsigned long most, unsigned long *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	*value = strtoul(text, &end, 0);
	return *end == '\0' && *value >= least && *value <= most;
}

static bool set_ack(const char *value, struct ib_options *o)
{
	static const struct { const char *name; enum ib_ack_mode mode; } modes[] = {
		{ "request", IB_ACK_ON_REQUEST }, { "packet", IB_ACK_PER_PACKET }, { "message", IB_ACK_MESSAGE_END },
	};
	unsigned long every;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(value, modes[i].name) == 0) {
			o->ack_mode = modes[i].mode;
			return true;
		}
	}
	if (!number(value, 1, IB_WINDOW_MAX, &every))
		return false;
	o->ack_mode = IB_ACK_COALESCED;
	o->ack_every = (uint16_t)every;
	return true;
}

static bool set_window(const char *value, struct ib_options *o)
{
	unsigned long window;

	if (!number(value, 1, IB_WINDOW_MAX, &window) || (window & (window - 1)))
		return false;
	o->window_pkts = (uint16_t)window;
	return true;
}

static bool set_report(const char *value, struct ib_options *o)
{
	o->report_last_only = strcmp(value, "last") == 0;
	return o->report_last_only || strcmp(value, "all") == 0;
}

static bool set_start(const char *value, struct ib_options *o)
{
	unsigned long start = 0;

	o->exchange_start = strcmp(value, "exchange") == 0;
	if (!o->exchange_start && !number(value, 0, PSN_MASK, &start))
		return false;
	o->start_msn = (uint32_t)start;
	return true;
}

static bool set_level(const char *value, struct ib_options *o)
{
	o->ack_when_consumed = strcmp(value, "process") == 0;
	return o->ack_when_consumed || strcmp(value, "endpoint") == 0;
}

static bool set_timeout(const char *value, struct ib_options *o)
{
	o->timeout_as_standard = strcmp(value, "standard") == 0;
	return o->timeout_as_standard || strcmp(value, "taken") == 0;
}

static bool set_repeat(const char *value, struct ib_options *o)
{
	o->selective_repeat = strcmp(value, "selective") == 0;
	return o->selective_repeat || strcmp(value, "all") == 0;
}

static bool set_congestion(const char *value, struct ib_options *o)
{
	o->congestion_control = strcmp(value, "on") == 0;
	return o->congestion_control || strcmp(value, "off") == 0;
}

static bool set_paths(const char *value, struct ib_options *o)
{
	unsigned long paths;

	if (!number(value, 1, BTH_PATHS, &paths))
		return false;
	o->paths = (uint8_t)paths;
	return true;
}

static bool set_refuse(const char *value, struct ib_options *o)
{
	o->refuses_silently = strcmp(value, "silent") == 0;
	return o->refuses_silently || strcmp(value, "told") == 0;
}

static bool set_after_failure(const char *value, struct ib_options *o)
{
	o->renumbers = strcmp(value, "renumber") == 0;
	return o->renumbers || strcmp(value, "filter") == 0;
}

static bool set_spread(const char *value, struct ib_options *o)
{
	static const char *const names[] = { [MP_ROUND_ROBIN] = "turn", [MP_LEAST_LOADED] = "least", [MP_RANDOM] = "random" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			o->spread_by = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static bool set_completion(const char *value, struct ib_options *o)
{
	static const char *const names[] = {
		[IB_COMPLETE_BY_MSN] = "msn", [IB_COMPLETE_BY_PSN] = "psn", [IB_COMPLETE_BY_WQE] = "wqe",
	};

	for (unsigned i = IB_COMPLETE_BY_MSN; i <= IB_COMPLETE_BY_WQE; i++) {
		if (strcmp(value, names[i]) == 0) {
			o->completion = (enum ib_completion)i;
			return true;
		}
	}
	return false;
}

static bool set(char *setting, struct ib_options *o)
{
	enum { ACKS = 1, PATHS = 2 };	/* profiles that have it: those that acknowledge, and multipath */
	static const struct {
		const char *name;
		bool (*set)(const char *value, struct ib_options *o);
		int profiles;
	} settings[] = {
		{ "ack", set_ack, ACKS }, { "window", set_window, ACKS | PATHS }, { "report", set_report, ACKS },
		{ "start-msn", set_start, ACKS }, { "ack-level", set_level, ACKS }, { "complete", set_completion, ACKS },
		{ "timeout", set_timeout, ACKS }, { "repeat", set_repeat, ACKS }, { "congestion", set_congestion, ACKS },
		{ "paths", set_paths, ACKS | PATHS }, { "refuse", set_refuse, PATHS },
		{ "after-failure", set_after_failure, PATHS }, { "spread", set_spread, PATHS },
	};
	int profile = o->profile == IB_MULTIPATH ? PATHS : ACKS;
	char *value = strchr(setting, '=');

	if (!value)
		return false;
	*value++ = '\0';
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (strcmp(setting, settings[i].name) == 0)
			return settings[i].profiles & profile && settings[i].set(value, o);
	}
	return false;
}

/* Cuts the next word off at its comma; NULL when there is none. */
static char *next_word(char **at)
{
	char *word = *at, *comma = word ? strchr(word, ',') : NULL;

	if (comma)
		*comma++ = '\0';
	*at = comma;
	return word;
}

static bool set_profile(const char *name, struct ib_options *o)
{
	if (strcmp(name, "standard") == 0)
		return true;
	if (strcmp(name, "multipath") == 0) {
		o->profile = IB_MULTIPATH;
		o->paths = MULTIPATH_PATHS;
		return true;
	}
	o->profile = IB_SEED;
	if (strcmp(name, "printed") == 0)
		o->completion = IB_COMPLETE_BY_PSN;
	return o->completion || strcmp(name, "seed") == 0;
}

int ib_options_parse(const char *text, struct ib_options *options)
{
	struct ib_options o = ib_default_options;
	char copy[128], *at = copy, *word;

	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, strlen(text) + 1);
	if (!set_profile(next_word(&at), &o))
		return -EINVAL;
	while ((word = next_word(&at))) {
		if (!set(word, &o))
			return -EINVAL;
	}
	*options = o;
	return 0;
}
