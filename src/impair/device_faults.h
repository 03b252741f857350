/* Faults of a device on demand: calls of verbs that fail, and asynchronous events with what they report. Each is for the n-th
 * calls of a verb, for a share of them, or, events, for a time. The same seed and calls give the same outcome. Pure; the caller
 * does what an outcome says (runtime/device_faults.c). */
#ifndef WEFT_IMPAIR_DEVICE_FAULTS_H
#define WEFT_IMPAIR_DEVICE_FAULTS_H

#include "base/rand.h"
#include "base/time.h"
#include "verbs/device.h"

/* The calls that can fail, by the names that settings have: open_device ... */
enum fault_verb {
#define FAULT_VERB(name) FAULT_##name,
#include "impair/fault_verbs.def"
#undef FAULT_VERB
	FAULT_VERBS,
};

enum { DEVICE_FAULTS = 16 };	/* entries of fail= and event= */

enum fault_target { FAULT_OF_DEVICE, FAULT_OF_CQ, FAULT_OF_QP, FAULT_OF_SRQ };

/* What a name after event= stands for. */
struct fault_event {
	const char *name;
	enum ibv_event_type type;
	enum fault_target target;
	bool kills;			/* QPs go to the error state: the object's, or the device's */
};

struct device_fault {
	unsigned devices;		/* bits: of these */
	int error;			/* errno of the call; 0: an event */
	const struct fault_event *event;	/* borrowed: of a table */
	enum fault_verb verb;		/* FAULT_VERBS: an event at a time */
	uint32_t first, last;		/* calls from 1 on */
	uint32_t ppm;			/* of those, this share */
	wtime after_ns;
};

struct device_faults {
	struct device_fault fault[DEVICE_FAULTS];
	unsigned count;
	struct rand rand[DEVICE_FAULTS];
	uint32_t calls[CA_DEVICES][FAULT_VERBS];
	unsigned happened;		/* bits: events at a time */
	unsigned fatal;			/* bits: devices whose calls all fail */
	wtime begun;
};

/* "reg_mr:ENOMEM:3" into *f; with is_event, "cq_err:post_send:100" or "device_fatal:2s". False: it is none. */
bool device_fault_parse(const char *text, bool is_event, struct device_fault *f);

void device_faults_init(struct device_faults *df, const struct device_fault *fault, unsigned count, uint64_t seed, wtime now);

/* Is there a fault of such calls of this device, or did a fatal error end it? */
bool device_faults_concern(const struct device_faults *df, unsigned device, enum fault_verb verb);
/* A call, which device_faults_concern. Returns the errno that it ends with, 0: it is done; *events: bits of the faults whose
 * events happen with it. */
int device_faults_call(struct device_faults *df, unsigned device, enum fault_verb verb, unsigned *events);

/* Bits of the events whose time has come. They are due until device_faults_happen. */
unsigned device_faults_due(const struct device_faults *df, wtime now);
/* When the next one that is not due yet will be, or WTIME_NEVER. */
wtime device_faults_deadline(const struct device_faults *df, wtime now);
/* An event happened, to this device. */
void device_faults_happen(struct device_faults *df, unsigned fault, unsigned device);

const char *fault_verb_name(enum fault_verb verb);
/* "ENOMEM"; NULL: none that calls can end with. */
const char *fault_error_name(int error);

#endif
