#include "runtime/faults.h"

#include "base/log.h"
#include "control/clock.h"
#include "ib/ib.h"
#include "impair/lanes.h"
#include "peers/route.h"
#include "runtime/config.h"
#include "runtime/device_faults.h"
#include "runtime/gsi.h"
#include "runtime/helper.h"
#include "runtime/link_faults.h"
#include "runtime/pump.h"
#include "runtime/recorder.h"
#include "runtime/state.h"
#include "runtime/tracer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Destinations: a slot, and as many of them more as the number of its port is above 1. */
enum { TO_NOBODY = PAGE_SLOTS * CA_DEVICES };

struct faults {
	struct impair_lanes lanes;
	struct device_faults device;
	struct link_faults links;
	struct tracer *tracer;				/* owned, or NULL */
	struct recorder recorder;			/* with a tracer */
	struct tracer *capture;				/* owned, or NULL */
	char text[IMPAIR_TEXT];				/* what is in force, with this process's seed */
	uint8_t frame[PACKET_MAX_BYTES];
	wtime due;			/* of the group's packet that is being sent, unless it waits in a lane; 0: of none */
};

static int count_devices(const struct ca *ca)
{
	int n = 0;

	while (n < ca->devices && ca->dev[n].network == n)
		n++;
	return n;
}

static int read_spec(const char *text, const struct ca *ca, struct impair_spec *spec)
{
	int devices = count_devices(ca);
	char why[256];

	if (impair_parse(text, spec, why, sizeof(why))) {
		log_line(LOG_ERROR, "faults: %s; see man weft-run", why);
		return -EINVAL;
	}
	if (spec->named >> devices) {
		log_line(LOG_ERROR, "the faults name weft%d, and the last device is %s; see weft devices",
			 31 - __builtin_clz(spec->named), ca->dev[devices - 1].name);
		return -ENODEV;
	}
	if (!spec->has_seed && getrandom(&spec->seed, sizeof(spec->seed), 0) != sizeof(spec->seed))
		return -EIO;
	/* what is said of a device is for each port in its network */
	for (int i = devices; i < ca->devices; i++)
		memcpy(spec->rules[i], spec->rules[ca->dev[i].network], sizeof(spec->rules[i]));
	return 0;
}

static struct trace_process describe(const struct faults *f, const struct ca *ca)
{
	struct trace_process p = { .devices = (unsigned)ca->devices };

	snprintf(p.program, sizeof(p.program), "%s", program_invocation_short_name);
	for (unsigned i = 0; i < p.devices; i++) {
		snprintf(p.device[i].name, sizeof(p.device[i].name), "%s", ca->dev[i].name);
		snprintf(p.device[i].protocol, sizeof(p.device[i].protocol), "%s", ca->dev[i].protocol->name);
	}
	snprintf(p.impair, sizeof(p.impair), "%s", f->text);
	return p;
}

static int open_tracer(struct faults *f, const struct ca *ca, const char *path, wtime now)
{
	const struct trace_process p = describe(f, ca);

	return tracer_create(path, &p, now, &f->tracer);
}

static void trace(struct runtime *rt, struct trace_record r)
{
	r.time = rt->ca.now;
	tracer_add(rt->faults->tracer, &r);
}

/* Entries of QPs whose transport was `from` go to `to`. */
static void record_engines(struct runtime *rt, const struct transport_ops *from, const struct transport_ops *to)
{
	for (int i = 0; i < rt->ca.devices; i++)
		if (rt->ca.dev[i].transport == from)
			rt->ca.dev[i].transport = to;
}

/* 0 or -errno, logged. *to has the text with the seed of this process. */
static int read_faults(struct runtime *rt, const char *text, struct impair_spec *spec, char to[IMPAIR_TEXT])
{
	int err;

	*spec = (struct impair_spec){ 0 };
	*to = '\0';
	if (!*text)
		return 0;
	err = read_spec(text, &rt->ca, spec);
	if (err)
		return err;
	impair_for_process(spec, rt->session.number);
	if (!impair_set_seed(text, spec->seed, to, IMPAIR_TEXT))
		return 0;
	log_line(LOG_ERROR, "the faults are too long");
	return -EINVAL;
}

static void note_order(struct runtime *rt, const struct impair_spec *spec)
{
	for (int i = 0; i < rt->ca.devices; i++)
		rt->ca.dev[i].may_reorder = impair_reorders(spec, (unsigned)i);
}

static void begin_device_faults(struct runtime *rt, const struct impair_spec *spec, wtime now)
{
	device_faults_init(&rt->faults->device, spec->fault, spec->faults, spec->seed, now);
	if (atomic_exchange(&rt->calls_fail, spec->faults > 0) != (spec->faults > 0) && rt->events)
		rt->events->calls_changed(rt);
}

int faults_create(struct runtime *rt)
{
	const struct config *c = rt->config;
	wtime now = clock_now();
	struct impair_spec spec;
	int err;

	if (!*c->impair && !*c->trace)
		return 0;
	rt->faults = calloc(1, sizeof(*rt->faults));
	if (!rt->faults)
		return -ENOMEM;
	err = read_faults(rt, c->impair, &spec, rt->faults->text);
	note_order(rt, &spec);
	if (err == 0)
		err = impair_lanes_init(&rt->faults->lanes, &spec);
	if (err == 0 && *c->trace)
		err = open_tracer(rt->faults, &rt->ca, c->trace, now);
	if (err) {
		faults_destroy(rt);
		return err;
	}
	begin_device_faults(rt, &spec, now);
	rt->faults->recorder.tracer = rt->faults->tracer;
	if (rt->faults->tracer)
		record_engines(rt, &ib_transport, recorder_transport(&rt->faults->recorder));
	return 0;
}

static bool any_reorders(const struct impair_spec *spec)
{
	for (unsigned device = 0; device < IMPAIR_DEVICES; device++)
		if (impair_reorders(spec, device))
			return true;
	return false;
}

/* The lanes of the last faults go with what waits in them. */
static void change_lanes(struct runtime *rt, const struct impair_spec *spec, const char *text)
{
	struct faults *f = rt->faults;

	rt->ca.counters.impaired_lost += impair_lanes_waiting(&f->lanes);
	impair_lanes_fini(&f->lanes);
	memset(&f->lanes, 0, sizeof(f->lanes));
	snprintf(f->text, sizeof(f->text), "%s", text);
	if (impair_lanes_init(&f->lanes, spec)) {
		log_line(LOG_ERROR, "no memory for faults: there are none now");
		impair_lanes_fini(&f->lanes);
		f->text[0] = '\0';
	}
	if (f->tracer)
		trace(rt, (struct trace_record){ TRACE_IMPAIR, .data = (const uint8_t *)f->text,
						 .bytes = (uint32_t)strlen(f->text) + 1 });
}

/* The stage is there from now on. False: there is no memory. */
static bool put_in(struct runtime *rt)
{
	if (!rt->faults)
		rt->faults = rt->idle_faults ? rt->idle_faults : calloc(1, sizeof(*rt->faults));
	rt->idle_faults = NULL;
	return rt->faults;
}

static bool has_links(const struct runtime *rt)
{
	return node_is_somewhere(&rt->peers.node) && fabric_has_faults(&rt->peers.node.fabric);
}

bool faults_meet_all(const struct runtime *rt)
{
	return rt->faults && (*rt->faults->text || rt->faults->tracer || rt->faults->capture);
}

/* A stage without faults, trace and capture costs what a stage costs. */
static void put_aside(struct runtime *rt)
{
	if (faults_meet_all(rt) || has_links(rt) ||
	    link_faults_deadline(&rt->faults->links) != WTIME_NEVER)
		return;
	rt->idle_faults = rt->faults;
	rt->faults = NULL;
}

void faults_change(struct runtime *rt, const char *text)
{
	char seeded[IMPAIR_TEXT];
	struct impair_spec spec;

	if (strlen(text) >= sizeof(seeded) || read_faults(rt, text, &spec, seeded))
		return;
	if (rt->config->transport.ack_mode == IB_ACK_COALESCED && any_reorders(&spec)) {
		log_line(LOG_ERROR, "frames are not reordered: the profile has one ACK for several packets");
		return;
	}
	if ((!rt->faults && !rt->idle_faults && !*text) || !put_in(rt))
		return;
	note_order(rt, &spec);
	change_lanes(rt, &spec, seeded);
	begin_device_faults(rt, &spec, rt->ca.now);
	put_aside(rt);
}

static void end_capture(struct runtime *rt)
{
	tracer_destroy(rt->faults->capture);
	rt->faults->capture = NULL;
	put_aside(rt);
}

void faults_capture(struct runtime *rt, int pipe)
{
	struct trace_process p;

	if (rt->faults && rt->faults->capture) {
		tracer_flush(rt->faults->capture);
		end_capture(rt);
	}
	if (pipe < 0)
		return;
	if (!put_in(rt)) {
		close(pipe);
		return;
	}
	p = describe(rt->faults, &rt->ca);
	if (tracer_pipe(pipe, &p, clock_now(), &rt->faults->capture)) {
		log_line(LOG_ERROR, "no memory for a capture");
		put_aside(rt);
	}
}

void faults_look_at_links(struct runtime *rt)
{
	if (has_links(rt) && put_in(rt))
		link_faults_init(&rt->faults->links);
	else if (rt->faults)
		put_aside(rt);
}

const char *faults_text(const struct runtime *rt)
{
	return rt->faults ? rt->faults->text : "";
}

struct recorder *faults_recorder(struct runtime *rt)
{
	return &rt->faults->recorder;
}

struct device_faults *faults_of_devices(struct runtime *rt)
{
	return rt->faults ? &rt->faults->device : NULL;
}

void faults_destroy(struct runtime *rt)
{
	if (rt->idle_faults)
		link_faults_fini(&rt->idle_faults->links);
	free(rt->idle_faults);
	rt->idle_faults = NULL;
	if (!rt->faults)
		return;
	atomic_store(&rt->calls_fail, false);
	record_engines(rt, &rt->faults->recorder.ops, &ib_transport);	/* a forked child's QPs, or none */
	impair_lanes_fini(&rt->faults->lanes);
	link_faults_fini(&rt->faults->links);
	tracer_destroy(rt->faults->tracer);
	tracer_destroy(rt->faults->capture);
	free(rt->faults);
	rt->faults = NULL;
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

/* The route that there is by now; NULL: nobody's. */
static struct link *link_to(struct runtime *rt, uint32_t to)
{
	const struct route r = route_to_slot(&rt->peers, to % PAGE_SLOTS);

	return to > TO_NOBODY ? links_find(&rt->peers.links, to - TO_NOBODY) : route_link(&r);
}

/* As it leaves, or has arrived. */
static void note_passed(struct runtime *rt, unsigned kind, enum impair_direction direction, uint8_t marks, const void *frame,
			uint32_t bytes, uint32_t to)
{
	struct trace_record r = { TRACE_PASSED, link_device(kind), link_form(kind), direction, marks, .to = to,
				  .time = rt->ca.now, .data = frame, .bytes = bytes };

	if (rt->faults->tracer)
		tracer_add(rt->faults->tracer, &r);
	if (rt->faults->capture)
		tracer_add(rt->faults->capture, &r);
}

static unsigned port_number(uint32_t to)
{
	return to < TO_NOBODY ? to / PAGE_SLOTS + 1 : CA_PORT;
}

/* What becomes of it on its way to a process, as a mark of the trace. */
static uint8_t send_over_links(struct runtime *rt, unsigned kind, const void *frame, uint32_t bytes, uint32_t to)
{
	struct link_faults *links = &rt->faults->links;
	wtime due = rt->faults->due;
	enum link_fate fate = to >= TO_NOBODY ? LINK_PASSED :
			      due ? link_faults_hold(links, rt->ca.now, due, kind, frame, bytes, to) :
			      link_faults_take(links, rt, kind, frame, bytes, to);

	if (fate == LINK_PASSED)
		pump_send_frame(rt, link_to(rt, to), kind, port_number(to), frame, bytes);
	count(&rt->ca.counters, fate == LINK_LOST ? IMPAIR_LOST : fate == LINK_HELD ? IMPAIR_DELAYED : 0);
	return fate == LINK_LOST ? TRACE_LINK_LOST : fate == LINK_HELD ? TRACE_LINK_HELD : 0;
}

static void pass(struct runtime *rt, unsigned kind, enum impair_direction direction, const void *frame, uint32_t bytes,
		 uint32_t to)
{
	struct recorder *recorder = &rt->faults->recorder;
	uint8_t marks = 0;

	recorder->stopped = recorder->refused = false;
	if (!to && direction == IMPAIR_OUT) {
		gsi_send_frame(rt, kind, frame, bytes);
	} else if (!to) {
		gsi_deliver(rt, kind, frame, bytes);
		helper_kick(rt);
	} else if (direction == IMPAIR_OUT) {
		marks = send_over_links(rt, kind, frame, bytes, to);
	} else {
		pump_deliver(rt, to, kind, frame, bytes);
	}
	note_passed(rt, kind, direction, marks | recorder_marks(recorder), frame, bytes, to);
}

static void offer(struct runtime *rt, unsigned kind, enum impair_direction direction, const void *frame, size_t bytes,
		  uint32_t to)
{
	struct faults *f = rt->faults;
	unsigned marks, device = link_device(kind);
	struct impair_lane *lane = impair_lane(&f->lanes, device, direction);

	if (!lane) {
		pass(rt, kind, direction, frame, (uint32_t)bytes, to);
		return;
	}
	marks = impair_push(lane, rt->ca.now, link_form(kind), frame, bytes, to);
	count(&rt->ca.counters, marks);
	if (f->tracer)
		trace(rt, (struct trace_record){ TRACE_OFFERED, device, link_form(kind), direction, (uint8_t)marks, .to = to,
						 .data = frame, .bytes = (uint32_t)bytes });
}

/* Where a frame goes, as a number that it can wait with: a slot, which for weftd, whose frames are QP1's, is 0; or a link to
 * other hosts. */
static uint32_t destination(const struct route *r)
{
	if (r->kind == ROUTE_LINK)
		return TO_NOBODY + route_link(r)->number;
	if (r->kind == ROUTE_NOWHERE || r->kind == ROUTE_CUT || r->kind == ROUTE_NO_LINK)
		return TO_NOBODY;
	return route_slot(r);
}

/* Of what QPs send, weftd gets what is for QP1. */
void faults_send(struct runtime *rt, const struct route *r, const struct ca_device *dev, const struct packet *p, unsigned number,
		 wtime due)
{
	size_t bytes = packet_build(p, rt->faults->frame, sizeof(rt->faults->frame));
	uint32_t to = r->kind == ROUTE_MANAGEMENT && !gsi_is_for_qp1(p) ? TO_NOBODY : destination(r);

	if (to < PAGE_SLOTS)
		to += (number - 1) * PAGE_SLOTS;
	rt->faults->due = due;
	if (bytes)
		offer(rt, link_kind(dev->index, p->form), IMPAIR_OUT, rt->faults->frame, bytes, to);
	rt->faults->due = 0;
}

void faults_send_frame(struct runtime *rt, const struct route *r, unsigned kind, const void *frame, size_t bytes)
{
	offer(rt, kind, IMPAIR_OUT, frame, bytes, destination(r));
	faults_run(rt, IMPAIR_OUT);
}

void faults_receive(struct runtime *rt, uint32_t origin, unsigned kind, const void *frame, size_t bytes)
{
	if (link_device(kind) < (unsigned)rt->ca.devices)
		offer(rt, kind, IMPAIR_IN, frame, bytes, origin);
	else
		rt->ca.counters.malformed++;
}

/* Those that have passed slow links. */
static unsigned run_links(struct runtime *rt)
{
	struct link_faults *links = &rt->faults->links;
	const struct impair_frame *frame;
	unsigned n = 0;

	for (; (frame = link_faults_pop(links, rt->ca.now)); n++)
		pump_send_frame(rt, link_to(rt, frame->to), link_kind(links->device, frame->form), port_number(frame->to),
				frame->data, frame->bytes);
	return n;
}

unsigned faults_run(struct runtime *rt, enum impair_direction direction)
{
	unsigned n = 0;

	for (unsigned device = 0; device < IMPAIR_DEVICES; device++) {
		struct impair_lane *lane = impair_lane(&rt->faults->lanes, device, direction);
		const struct impair_frame *frame;

		for (; lane && (frame = impair_pop(lane, rt->ca.now)); n++)
			pass(rt, link_kind(device, frame->form), direction, frame->data, frame->bytes, frame->to);
	}
	if (direction == IMPAIR_OUT)
		n += run_links(rt);
	return n;
}

wtime faults_deadline(const struct runtime *rt)
{
	return wtime_min(wtime_min(impair_lanes_deadline(&rt->faults->lanes), link_faults_deadline(&rt->faults->links)),
			 device_faults_next(rt));
}

void faults_flush(struct runtime *rt)
{
	if (rt->faults->tracer)
		tracer_flush(rt->faults->tracer);
	if (!rt->faults->capture)
		return;
	tracer_flush(rt->faults->capture);
	if (tracer_is_over(rt->faults->capture))
		end_capture(rt);
}

/* Time passes only for what is on its way, which survives its sender. */
static void send_all(struct runtime *rt, wtime due)
{
	rt->ca.now = due > rt->ca.now ? due : rt->ca.now;
	faults_run(rt, IMPAIR_OUT);
}

void faults_leave(struct runtime *rt)
{
	wtime due;

	if (!rt->faults || !lock_soon(&rt->lock))
		return;
	for (unsigned device = 0; device < IMPAIR_DEVICES; device++) {
		const struct impair_lane *lane = impair_lane(&rt->faults->lanes, device, IMPAIR_OUT);

		while (lane && (due = impair_deadline(lane)) != WTIME_NEVER)
			send_all(rt, due);
	}
	while ((due = link_faults_deadline(&rt->faults->links)) != WTIME_NEVER)
		send_all(rt, due);
	pump_flush(rt);
	faults_flush(rt);
	lock_leave(&rt->lock);
}
