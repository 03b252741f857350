#include "host/faults.h"

#include "base/log.h"
#include "host/config.h"
#include "host/internal.h"
#include "host/mads.h"
#include "host/recorder.h"
#include "host/tracer.h"
#include "ib/ib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* In what impair_push is given as `to`: an Ethernet frame. They go through the lanes of their device, weft1. */
enum { IS_ETHERNET = 1 << 30 };

struct faults {
	struct impair_lane lane[IMPAIR_FORMS][IMPAIR_DIRECTIONS];
	bool acts[IMPAIR_FORMS][IMPAIR_DIRECTIONS];	/* has rules, so the lane is initialised */
	struct tracer *tracer;				/* owned, or NULL */
	struct recorder recorder;			/* with a tracer */
	struct mads mads;
	uint8_t frame[PACKET_MAX_BYTES];
};

static int read_spec(const char *text, struct impair_spec *spec)
{
	char why[256];

	if (impair_parse(text, spec, why, sizeof(why))) {
		log_line(LOG_ERROR, "WEFT_IMPAIR: %s; see man weft-run", why);
		return -EINVAL;
	}
	if (!spec->has_seed && getrandom(&spec->seed, sizeof(spec->seed), 0) != sizeof(spec->seed))
		return -EIO;
	return 0;
}

static int open_lanes(struct faults *f, const struct impair_spec *spec)
{
	for (int i = 0; i < IMPAIR_FORMS * IMPAIR_DIRECTIONS; i++) {
		int form = i / IMPAIR_DIRECTIONS, direction = i % IMPAIR_DIRECTIONS, err;

		if (!impair_rules_act(&spec->rules[form][direction]))
			continue;
		err = impair_init(&f->lane[form][direction], spec, (enum packet_form)form, (enum impair_direction)direction);
		if (err)
			return err;
		f->acts[form][direction] = true;
	}
	return 0;
}

static int open_tracer(struct faults *f, const char *path, const char *impair, const struct impair_spec *spec)
{
	struct trace_process p;
	int n = 0;

	snprintf(p.program, sizeof(p.program), "%s", program_invocation_short_name);
	p.impair[0] = '\0';
	if (*impair)	/* the last seed is the one that counts */
		n = snprintf(p.impair, sizeof(p.impair), "%s,seed=%llu", impair, (unsigned long long)spec->seed);
	if (n >= (int)sizeof(p.impair)) {
		log_line(LOG_ERROR, "WEFT_IMPAIR is too long for a trace");
		return -EINVAL;
	}
	return tracer_create(path, &p, host_now(), &f->tracer);
}

int faults_create(struct host *h)
{
	const struct config *c = config_get();
	struct impair_spec spec = { 0 };
	int err;

	if (!*c->impair && !*c->trace)
		return 0;
	h->faults = calloc(1, sizeof(*h->faults));
	if (!h->faults)
		return -ENOMEM;
	err = *c->impair ? read_spec(c->impair, &spec) : 0;
	impair_for_process(&spec, h->session.number);
	for (int i = 0; i < h->ca.devices; i++)
		h->ca.dev[i].may_reorder = impair_reorders(&spec, h->ca.dev[i].form);
	if (err == 0)
		err = open_lanes(h->faults, &spec);
	if (err == 0 && *c->trace)
		err = open_tracer(h->faults, c->trace, c->impair, &spec);
	if (err) {
		faults_destroy(h);
		return err;
	}
	h->faults->recorder.tracer = h->faults->tracer;
	if (h->faults->tracer)
		h->ca.transport = recorder_transport();
	return 0;
}

struct recorder *faults_recorder(struct host *h)
{
	return &h->faults->recorder;
}

void faults_destroy(struct host *h)
{
	if (!h->faults)
		return;
	h->ca.transport = &ib_transport;	/* a forked child's QPs, or none */
	for (int i = 0; i < IMPAIR_FORMS * IMPAIR_DIRECTIONS; i++)
		impair_fini(&h->faults->lane[i / IMPAIR_DIRECTIONS][i % IMPAIR_DIRECTIONS]);
	tracer_destroy(h->faults->tracer);
	free(h->faults);
	h->faults = NULL;
}

static void trace(struct host *h, struct trace_record r)
{
	r.time = h->now;
	tracer_add(h->faults->tracer, &r);
}

static void count(struct counters *c, unsigned marks)
{
	c->impaired_lost += !!(marks & (IMPAIR_LOST | IMPAIR_SCHEDULED));
	c->impaired_overrun += !!(marks & IMPAIR_OVERRUN);
	c->impaired_duplicated += !!(marks & IMPAIR_DUPLICATED);
	c->impaired_reordered += !!(marks & IMPAIR_REORDERED);
	c->impaired_corrupted += !!(marks & IMPAIR_CORRUPTED);
	c->impaired_delayed += !!(marks & IMPAIR_DELAYED);
}

static void pass_mad(struct host *h, enum packet_form form, enum impair_direction direction, const void *frame, uint32_t bytes,
		     uint32_t to)
{
	struct control_msg msg;

	if (!mads_restore(&h->faults->mads, form, frame, bytes, to, &msg)) {
		h->ca.counters.icrc_errors++;
	} else if (direction == IMPAIR_OUT) {
		session_post(&h->session, &msg, NULL);
	} else {
		mads_arrive(&h->faults->mads, &msg);
		helper_kick(h);
	}
}

static void pass(struct host *h, enum packet_form form, enum impair_direction direction, const void *frame, uint32_t bytes,
		 uint32_t to)
{
	struct recorder *recorder = &h->faults->recorder;

	recorder->stopped = false;
	if (mads_is_one(to))
		pass_mad(h, form, direction, frame, bytes, to);
	else if (direction == IMPAIR_OUT)
		pump_send_frame(h, to & ~(uint32_t)IS_ETHERNET, form, frame, bytes);
	else
		pump_deliver(h, form, frame, bytes);
	if (h->faults->tracer)
		trace(h, (struct trace_record){ TRACE_PASSED, form, direction, recorder->stopped ? TRACE_STOPPED : 0, .to = to,
						.data = frame, .bytes = bytes });
}

/* Whose lanes a frame takes. */
static enum packet_form device_form(enum packet_form form)
{
	return form == PACKET_ETHERNET ? PACKET_ROCE : form;
}

static void offer(struct host *h, enum packet_form form, enum impair_direction direction, const void *frame, size_t bytes,
		  uint32_t to)
{
	struct faults *f = h->faults;
	unsigned marks;

	if (form == PACKET_ETHERNET)
		to |= IS_ETHERNET;
	if (!f->acts[device_form(form)][direction]) {
		pass(h, form, direction, frame, (uint32_t)bytes, to);
		return;
	}
	marks = impair_push(&f->lane[device_form(form)][direction], h->now, frame, bytes, to);
	count(&h->ca.counters, marks);
	if (f->tracer)
		trace(h, (struct trace_record){ TRACE_OFFERED, form, direction, (uint8_t)marks, .to = to, .data = frame,
						.bytes = (uint32_t)bytes });
}

void faults_send(struct host *h, uint32_t slot, const struct packet *p)
{
	size_t bytes = packet_build(p, h->faults->frame, sizeof(h->faults->frame));

	if (bytes)
		offer(h, p->form, IMPAIR_OUT, h->faults->frame, bytes, slot);
}

void faults_receive(struct host *h, enum packet_form form, const void *frame, size_t bytes)
{
	offer(h, form, IMPAIR_IN, frame, bytes, 0);
}

static enum packet_form form_of(const struct impair_frame *frame, enum packet_form lane)
{
	return !mads_is_one(frame->to) && frame->to & IS_ETHERNET ? PACKET_ETHERNET : lane;
}

static void offer_mad(struct host *h, enum impair_direction direction, const struct control_msg *msg)
{
	struct faults *f = h->faults;
	const struct ca_device *dev = &h->ca.dev[msg->device];
	size_t bytes;

	if (msg->device >= (uint32_t)h->ca.devices)
		return;
	bytes = mads_frame(dev, msg, f->frame, sizeof(f->frame));
	if (bytes)
		offer(h, dev->form, direction, f->frame, bytes, mads_keep(&f->mads, msg));
	if (faults_run(h, direction))
		pump_flush(h);
}

void faults_send_mad(struct host *h, const struct control_msg *msg)
{
	offer_mad(h, IMPAIR_OUT, msg);
}

void faults_receive_mad(struct host *h, const struct control_msg *msg)
{
	offer_mad(h, IMPAIR_IN, msg);
}

bool faults_next_mad(struct host *h, struct control_msg *msg)
{
	return mads_take(&h->faults->mads, msg);
}

unsigned faults_run(struct host *h, enum impair_direction direction)
{
	unsigned n = 0;

	for (int form = 0; form < IMPAIR_FORMS; form++) {
		struct impair_lane *lane = &h->faults->lane[form][direction];
		const struct impair_frame *frame;

		if (!h->faults->acts[form][direction])
			continue;
		for (; (frame = impair_pop(lane, h->now)); n++)
			pass(h, form_of(frame, (enum packet_form)form), direction, frame->data, frame->bytes, frame->to);
	}
	return n;
}

wtime faults_deadline(const struct host *h)
{
	wtime first = WTIME_NEVER;

	for (int i = 0; i < IMPAIR_FORMS * IMPAIR_DIRECTIONS; i++) {
		int form = i / IMPAIR_DIRECTIONS, direction = i % IMPAIR_DIRECTIONS;

		if (h->faults->acts[form][direction])
			first = wtime_min(first, impair_deadline(&h->faults->lane[form][direction]));
	}
	return first;
}

void faults_flush(struct host *h)
{
	if (h->faults->tracer)
		tracer_flush(h->faults->tracer);
}

void faults_leave(struct host *h)
{
	if (!h->faults || !lock_try(&h->lock))
		return;
	/* what is on its way survives its sender; time passes only for these */
	for (int form = 0; form < IMPAIR_FORMS; form++) {
		wtime due;

		while (h->faults->acts[form][IMPAIR_OUT] &&
		       (due = impair_deadline(&h->faults->lane[form][IMPAIR_OUT])) != WTIME_NEVER) {
			h->now = due > h->now ? due : h->now;
			faults_run(h, IMPAIR_OUT);
		}
	}
	pump_flush(h);
	faults_flush(h);
	lock_leave(&h->lock);
}
