/* The text form of a profile, as `weft run --profile` takes it: its name, then settings after commas. */
#include "ib/ib.h"
#include "wire/header.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	static const struct { const char *name; bool (*set)(const char *value, struct ib_options *o); } settings[] = {
		{ "ack", set_ack }, { "window", set_window }, { "report", set_report }, { "start-msn", set_start },
		{ "ack-level", set_level }, { "complete", set_completion }, { "timeout", set_timeout },
		{ "repeat", set_repeat }, { "congestion", set_congestion },
		{ "paths", set_paths },
	};
	char *value = strchr(setting, '=');

	if (!value)
		return false;
	*value++ = '\0';
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (strcmp(setting, settings[i].name) == 0)
			return settings[i].set(value, o);
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
