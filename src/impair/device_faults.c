#include "impair/device_faults.h"

#include "impair/impair.h"

#include <errno.h>
#include <string.h>

enum { ALWAYS = 1000000, LONGEST = 48 };	/* LONGEST: bytes of a name or a count, our choice */

static const wtime LATEST = 24 * 3600 * WTIME_S;

static const struct fault_event events[] = {
	{ "device_fatal", IBV_EVENT_DEVICE_FATAL, FAULT_OF_DEVICE, true },
	{ "port_err", IBV_EVENT_PORT_ERR, FAULT_OF_DEVICE, false },
	{ "port_active", IBV_EVENT_PORT_ACTIVE, FAULT_OF_DEVICE, false },
	{ "lid_change", IBV_EVENT_LID_CHANGE, FAULT_OF_DEVICE, false },
	{ "pkey_change", IBV_EVENT_PKEY_CHANGE, FAULT_OF_DEVICE, false },
	{ "gid_change", IBV_EVENT_GID_CHANGE, FAULT_OF_DEVICE, false },
	{ "sm_change", IBV_EVENT_SM_CHANGE, FAULT_OF_DEVICE, false },
	{ "client_reregister", IBV_EVENT_CLIENT_REREGISTER, FAULT_OF_DEVICE, false },
	{ "cq_err", IBV_EVENT_CQ_ERR, FAULT_OF_CQ, true },
	{ "qp_fatal", IBV_EVENT_QP_FATAL, FAULT_OF_QP, true },
	{ "qp_req_err", IBV_EVENT_QP_REQ_ERR, FAULT_OF_QP, true },
	{ "qp_access_err", IBV_EVENT_QP_ACCESS_ERR, FAULT_OF_QP, true },
	{ "comm_est", IBV_EVENT_COMM_EST, FAULT_OF_QP, false },
	{ "path_mig", IBV_EVENT_PATH_MIG, FAULT_OF_QP, false },
	{ "path_mig_err", IBV_EVENT_PATH_MIG_ERR, FAULT_OF_QP, false },
	{ "srq_err", IBV_EVENT_SRQ_ERR, FAULT_OF_SRQ, true },
	{ "srq_limit_reached", IBV_EVENT_SRQ_LIMIT_REACHED, FAULT_OF_SRQ, false },
};

static const struct error { const char *name; int number; } errors[] = {
#define ERROR(name) { #name, name }
	ERROR(ENOMEM), ERROR(EINVAL), ERROR(EIO), ERROR(EAGAIN), ERROR(EBUSY), ERROR(EPERM), ERROR(EACCES), ERROR(EFAULT),
	ERROR(ENODEV), ERROR(ENOENT), ERROR(ENOSPC), ERROR(EMFILE), ERROR(EINTR), ERROR(ETIMEDOUT), ERROR(EOPNOTSUPP),
	ERROR(ENOSYS), ERROR(EOVERFLOW), ERROR(ENETUNREACH), ERROR(EHOSTUNREACH), ERROR(EADDRNOTAVAIL),
#undef ERROR
};

const char *fault_verb_name(enum fault_verb verb)
{
	static const char *const names[FAULT_VERBS] = {
#define FAULT_VERB(name) #name,
#include "impair/fault_verbs.def"
#undef FAULT_VERB
	};

	return names[verb];
}

const char *fault_error_name(int error)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].number == error)
			return errors[i].name;
	return NULL;
}

/* ---- text ---- */

/* The part before the next colon, and *text is behind the colon, or NULL at the end. False: the part is too long. */
static bool take_part(const char **text, char part[LONGEST])
{
	size_t bytes = strcspn(*text, ":");

	if (bytes >= LONGEST)
		return false;
	memcpy(part, *text, bytes);
	part[bytes] = '\0';
	*text = (*text)[bytes] ? *text + bytes + 1 : NULL;
	return true;
}

static enum fault_verb find_verb(const char *name)
{
	int verb = 0;

	while (verb < FAULT_VERBS && strcmp(name, fault_verb_name((enum fault_verb)verb)) != 0)
		verb++;
	return (enum fault_verb)verb;
}

static int find_error(const char *name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(name, errors[i].name) == 0)
			return errors[i].number;
	return 0;
}

static const struct fault_event *find_event(const char *name)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (strcmp(name, events[i].name) == 0)
			return &events[i];
	return NULL;
}

static bool read_count(const char **text, uint32_t *count)
{
	uint64_t value = 0;

	for (; **text >= '0' && **text <= '9' && value < UINT32_MAX / 10; ++*text)
		value = 10 * value + (uint64_t)(**text - '0');
	*count = (uint32_t)value;
	return value > 0 && value < UINT32_MAX;
}

/* "3", "2..5", "2.." or "10%"; NULL: every call. */
static bool read_calls(const char *text, struct device_fault *f)
{
	f->first = 1;
	f->last = UINT32_MAX;
	f->ppm = ALWAYS;
	if (!text || impair_parse_share(text, &f->ppm))
		return true;
	if (!read_count(&text, &f->first))
		return false;
	f->last = f->first;
	if (!*text)
		return true;
	if (strncmp(text, "..", 2) != 0)
		return false;
	text += 2;
	f->last = UINT32_MAX;
	return !*text || (read_count(&text, &f->last) && !*text && f->last >= f->first);
}

/* At once, after a time, or with calls of a verb. */
static bool read_moment(const char *text, struct device_fault *f)
{
	char part[LONGEST];

	f->verb = FAULT_VERBS;
	if (!text || impair_parse_time(text, LATEST, &f->after_ns))
		return true;
	if (!take_part(&text, part))
		return false;
	f->verb = find_verb(part);
	return f->verb < FAULT_VERBS && read_calls(text, f);
}

bool device_fault_parse(const char *text, bool is_event, struct device_fault *f)
{
	char part[LONGEST];

	*f = (struct device_fault){ 0 };
	if (!take_part(&text, part))
		return false;
	if (is_event) {
		f->event = find_event(part);
		return f->event && read_moment(text, f);
	}
	f->verb = find_verb(part);
	if (f->verb == FAULT_VERBS || !text || !take_part(&text, part))
		return false;
	f->error = find_error(part);
	return f->error && read_calls(text, f);
}

/* ---- calls and times ---- */

void device_faults_init(struct device_faults *df, const struct device_fault *fault, unsigned count, uint64_t seed, wtime now)
{
	*df = (struct device_faults){ .count = count, .begun = now };
	for (unsigned i = 0; i < count; i++) {
		df->fault[i] = fault[i];
		rand_seed(&df->rand[i], ~seed - i);	/* far from those of lanes */
	}
}

static bool is_of(const struct device_fault *f, unsigned device, enum fault_verb verb)
{
	return f->verb == verb && f->devices >> device & 1;
}

bool device_faults_concern(const struct device_faults *df, unsigned device, enum fault_verb verb)
{
	for (unsigned i = 0; i < df->count; i++)
		if (is_of(&df->fault[i], device, verb))
			return true;
	return df->fatal >> device & 1;
}

int device_faults_call(struct device_faults *df, unsigned device, enum fault_verb verb, unsigned *happening)
{
	int error = df->fatal >> device & 1 ? EIO : 0;
	uint32_t n = ++df->calls[device][verb];

	*happening = 0;
	for (unsigned i = 0; i < df->count; i++) {
		const struct device_fault *f = &df->fault[i];

		/* drawn by each fault for itself, so that none shifts another's choices */
		if (!is_of(f, device, verb) || n < f->first || n > f->last || !rand_chance(&df->rand[i], f->ppm))
			continue;
		if (f->event)
			*happening |= 1u << i;
		else if (!error)
			error = f->error;
	}
	return error;
}

static bool is_waiting(const struct device_faults *df, unsigned i)
{
	return df->fault[i].verb == FAULT_VERBS && !(df->happened >> i & 1);
}

unsigned device_faults_due(const struct device_faults *df, wtime now)
{
	unsigned due = 0;

	for (unsigned i = 0; i < df->count; i++)
		if (is_waiting(df, i) && now - df->begun >= df->fault[i].after_ns)
			due |= 1u << i;
	return due;
}

wtime device_faults_deadline(const struct device_faults *df, wtime now)
{
	wtime first = WTIME_NEVER;

	for (unsigned i = 0; i < df->count; i++)
		if (is_waiting(df, i) && now - df->begun < df->fault[i].after_ns)
			first = wtime_min(first, df->begun + df->fault[i].after_ns);
	return first;
}

void device_faults_happen(struct device_faults *df, unsigned fault, unsigned device)
{
	const struct device_fault *f = &df->fault[fault];

	if (f->verb == FAULT_VERBS)
		df->happened |= 1u << fault;
	if (f->event->type == IBV_EVENT_DEVICE_FATAL)
		df->fatal |= 1u << device;
}
