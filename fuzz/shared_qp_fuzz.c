/* A program that shares a UD QP among clients (weft/weft.h). The QP is this file's: what arrives, what fails and what the program
 * calls is the input's. At any time each buffer is either posted, or has a completion, or is a client's, or is free. Counts are
 * what was seen here, what a client holds stays as it came, and a call that fails changes nothing. */
#include "shared_qp_verbs.h"

#include <stdio.h>
#include <string.h>

/* ---- call-backs ---- */

static uint32_t choose_key(void *arg, const void *message, size_t bytes)
{
	const uint8_t *at = message;

	REQUIRE(arg == &w && w.is_in_poll && bytes <= w.bytes);
	REQUIRE(w.is_registered && at >= (uint8_t *)w.mr.addr + GRH && at + bytes <= (uint8_t *)w.mr.addr + w.mr.length);
	return key_of(message, bytes);
}

static void hear(void *arg, int client, int asked, uint32_t arrived, uint32_t should)
{
	REQUIRE(arg == &w && w.is_in_poll && client >= 0 && client < CLIENTS && w.client[client].is_used);
	REQUIRE(asked >= -1 && arrived && should && !w.client[client].is_told);
	w.client[client].is_told = true;
}

/* ---- what must hold ---- */

struct picture {
	struct weft_shared_counts counts;
	char text[TEXT];
	unsigned outstanding, held;
};

static struct picture picture(void)
{
	struct picture p;

	memset(&p, 0, sizeof(p));
	REQUIRE(!weft_shared_counts(w.shared, -1, &p.counts));
	REQUIRE(weft_shared_get(w.shared, p.text, sizeof(p.text)) == strlen(p.text));
	p.outstanding = outstanding();
	p.held = count(HELD);
	return p;
}

static void check_unchanged(const struct picture *before)
{
	const struct picture after = picture();

	REQUIRE(!memcmp(before, &after, sizeof(after)));
}

static void check_clients(const struct weft_shared_counts *all)
{
	uint32_t target = 0, automatic = 0;
	struct weft_shared_counts one;

	for (int i = 0; i < CLIENTS; i++) {
		const struct client *c = &w.client[i];

		if (!c->is_used)
			continue;
		REQUIRE(!weft_shared_counts(w.shared, i, &one));
		REQUIRE(one.arrivals == c->arrivals && one.discards == c->discards && one.held == c->held);
		target += one.target;
		automatic += one.automatic;
	}
	REQUIRE(all->target == target && all->automatic >= automatic);
}

static void check_buffers(const struct weft_shared_counts *all)
{
	unsigned most = all->posted < w.receives_most ? all->posted : w.receives_most;

	REQUIRE(all->posted + all->held <= w.buffers && count(HELD) == all->held);
	REQUIRE(w.is_behind ? outstanding() <= most : outstanding() == most);
	for (uint32_t i = 0; i < w.buffers; i++) {
		const struct buffer *b = &w.buffer[i];

		if (b->where == HELD)
			REQUIRE(!memcmp(b->copy, b->at, GRH + message_bytes(&b->wc)));
	}
}

static void check(void)
{
	struct weft_shared_counts all;

	REQUIRE(!weft_shared_counts(w.shared, -1, &all));
	REQUIRE(all.arrivals == w.arrivals && all.unknown == w.unknown && all.discards == w.discards);
	REQUIRE(weft_shared_drops(w.shared) == w.dropped);
	check_clients(&all);
	check_buffers(&all);
}

/* ---- the QP ---- */

/* Not posted, not completed: no completion of this QP comes any more. */
static void reset(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w.entries; i++)
		if (w.entry[i].qp_num != w.abi.ibv.qp_base.qp_num)
			w.entry[n++] = w.entry[i];
	w.entries = n;
	w.queued = 0;
	for (uint32_t i = 0; i < w.buffers; i++)
		if (w.buffer[i].where == POSTED || w.buffer[i].where == COMPLETED)
			w.buffer[i].where = LOST;
}

static void change_state(uint8_t what)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RTS, IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_RTR };
	enum ibv_qp_state to = states[what % 4];

	if (to == IBV_QPS_RESET || w.state == IBV_QPS_ERR)
		reset();
	w.state = to;
	if (to == IBV_QPS_ERR)
		flush();
}

static void arrive(void)
{
	uint8_t how = take_byte(&w.in), first = take_byte(&w.in);
	uint32_t bytes = how & 1 ? (uint32_t)take(&w.in, 2) % (BYTES_MOST + 2) : how >> 4;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS, .byte_len = GRH + bytes, .wc_flags = how & 2 ? IBV_WC_GRH : 0,
			     .src_qp = first * 0x010101u, .slid = first, .sl = how >> 4 };
	uint8_t *at;

	if ((w.state != IBV_QPS_RTS && w.state != IBV_QPS_RTR) || w.entries == ENTRIES)
		return;
	if (!w.queued || bytes > w.bytes) {
		w.qp.datagrams_dropped++;
		w.dropped++;
		return;
	}
	at = w.buffer[w.queue[0]].at;
	memset(at, how, GRH + bytes);
	if (bytes)
		at[GRH] = at[GRH + (bytes > 1)] = first > 250 ? 0xff : first % KEYS;
	if ((how & 12) == 12) {		/* shorter than any UD message */
		wc.byte_len = first % GRH;
	} else if ((how & 12) == 8 && first & 1) {
		wc.status = IBV_WC_LOC_LEN_ERR + first % 20;
		wc.byte_len = UINT32_MAX;
	}
	complete_first(wc);
}

/* Of another user of the CQ. */
static void arrive_elsewhere(void)
{
	uint8_t how = take_byte(&w.in);
	struct ibv_wc wc = { .status = how >> 2 & 1 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS, .byte_len = take_byte(&w.in) };

	if (w.entries == ENTRIES)
		return;
	wc.qp_num = w.abi.ibv.qp_base.qp_num + 1000 * (how & 1u);
	wc.wr_id = how & 2 ? UINT64_MAX - how : (uint64_t)1 << 32 | how;
	if (how & 1 && how & 8)
		wc.wr_id = how >> 4;
	complete(&wc);
}

/* ---- the program's calls ---- */

static void forget_buffers(int client)
{
	for (uint32_t i = 0; i < w.buffers; i++)
		if (w.buffer[i].where == HELD && w.buffer[i].client == client)
			w.buffer[i].where = FREE;
}

static int number_of_client(void)
{
	uint8_t n = take_byte(&w.in);

	return n < 224 ? n % 16 : n < 240 ? (int)take(&w.in, 4) : (int)n - 250;
}

static int number_of_buffers(void)
{
	uint8_t n = take_byte(&w.in);

	return n < 200 ? n % 32 - 8 : (int)take(&w.in, 4);
}

static bool is_client(int client)
{
	return client >= 0 && client < CLIENTS && w.client[client].is_used;
}

static void enrol(void)
{
	uint8_t what = take_byte(&w.in);
	uint32_t key = what < 250 ? what % KEYS : UINT32_MAX - (255u - what);	/* the last one is GSA_ANY_CLASS */
	int buffers = number_of_buffers(), got;
	const struct picture before = picture();

	w.has_failed = false;
	got = weft_shared_register(w.shared, key, buffers);
	if (got < 0) {
		bool is_wrong = key == GSA_ANY_CLASS || buffers < -1;

		REQUIRE(got == (is_wrong ? -EINVAL : client_of(key) ? -EBUSY : -ENOSPC));
		check_unchanged(&before);
		return;
	}
	REQUIRE(key != GSA_ANY_CLASS && buffers >= -1 && !client_of(key) && got < CLIENTS && !w.client[got].is_used);
	w.client[got] = (struct client){ .is_used = true, .key = key };
	w.is_behind = w.has_failed;
}

static void leave(int client)
{
	const struct picture before = picture();
	bool is_there = is_client(client);

	w.has_failed = false;
	if (is_there)
		forget_buffers(client);
	REQUIRE(weft_shared_unregister(w.shared, client) == (is_there ? 0 : -ENOENT));
	if (!is_there) {
		check_unchanged(&before);
		return;
	}
	w.client[client].is_used = false;
	w.is_behind = w.has_failed;
}

static void change_number(void)
{
	int client = number_of_client(), more = number_of_buffers(), got;
	const struct picture before = picture();

	w.has_failed = false;
	got = weft_shared_change(w.shared, client, more);
	REQUIRE(is_client(client) == (got != -ENOENT));
	if (got) {
		REQUIRE(got == -ENOENT || got == (more < 0 ? -EINVAL : -ENOSPC));
		check_unchanged(&before);
		return;
	}
	w.client[client].is_told = false;
	w.is_behind = w.has_failed;
}

static void check_message(const struct weft_shared_message *m)
{
	const struct buffer *b = &w.buffer[m->buffer];

	REQUIRE(m->buffer == w.last && w.last < w.buffers && b->where == FREE);
	REQUIRE(m->client == b->client && m->data == b->at + GRH && m->bytes == message_bytes(&b->wc));
	REQUIRE(m->grh == (b->wc.wc_flags & IBV_WC_GRH ? b->at : NULL));
	REQUIRE(m->src_qp == b->wc.src_qp && m->slid == b->wc.slid && m->sl == b->wc.sl);
}

static int poll(void)
{
	struct weft_shared_message m;
	struct client *c;
	int got;

	w.is_in_poll = true;
	w.has_failed = w.was_flushed = w.is_behind = false;
	w.last = BUFFERS;
	got = weft_shared_poll(w.shared, &m);
	w.is_in_poll = false;
	if (got < 0)
		REQUIRE(w.has_failed || (got == -EIO && (w.was_flushed || w.cq_fails)));
	if (got == 0)
		REQUIRE(!w.was_flushed && !w.cq_fails && !w.entries);
	if (got != 1)
		return got;
	check_message(&m);
	w.buffer[m.buffer].where = HELD;
	c = &w.client[m.client];
	c->discards--;
	w.discards--;
	c->held++;
	return got;
}

static void release(void)
{
	uint8_t which = take_byte(&w.in), how = take_byte(&w.in);
	uint32_t i = w.buffers ? which % w.buffers : 0;
	struct weft_shared_message m = { .client = w.buffer[i].client, .buffer = i };
	const struct picture before = picture();
	bool may;

	/* the next one that is held, if there is one */
	for (uint32_t n = 0; how < 200 && n < w.buffers && w.buffer[m.buffer].where != HELD; n++)
		m.buffer = (m.buffer + 1) % w.buffers;
	m.client = w.buffer[m.buffer].client;
	if (how & 1 && how & 2)
		m.client = number_of_client();
	if (how & 1 && how & 4)
		m.buffer = (uint32_t)take(&w.in, 4);
	may = m.buffer < w.buffers && w.buffer[m.buffer].where == HELD && w.buffer[m.buffer].client == m.client;
	w.has_failed = false;
	if (may)
		w.buffer[m.buffer].where = FREE;
	REQUIRE(weft_shared_release(w.shared, &m) == (may ? 0 : -EINVAL));
	if (!may) {
		check_unchanged(&before);
		return;
	}
	w.client[m.client].held--;
	w.is_behind = w.has_failed;
}

/* ---- tunables ---- */

static size_t add_tunable(char *text, size_t room)
{
	static const char *const names[] = { "each", "floor", "low-percent", "low", "high", "growth", "most", "watch", "fixed",
					     "period-ms", "window", "longest-kb", "program-kb", "nothing" };
	static const char *const between[] = { " ", ",", "  ", "", ",,", " ," };
	uint8_t name = take_byte(&w.in), value = take_byte(&w.in);
	unsigned long long number = name & 0x80 ? take(&w.in, 5) : value;

	return (size_t)snprintf(text, room, "%s=%llu%s", names[name % (sizeof(names) / sizeof(names[0]))], number,
				between[name & 0x40 ? value % (sizeof(between) / sizeof(between[0])) : 0]);
}

/* To be freed: of just so many bytes. */
static char *make_text(void)
{
	uint8_t how = take_byte(&w.in);
	char text[400];
	size_t bytes = 0;

	if (how & 1) {
		for (bytes = 0; bytes < how / 2 && w.in.at < w.in.end; bytes++)
			text[bytes] = (char)take_byte(&w.in);
		text[bytes] = '\0';
	} else {
		for (unsigned n = 0; n < 1 + how / 2 % 4u; n++)
			bytes += add_tunable(text + bytes, sizeof(text) - bytes);
	}
	return strdup(text);
}

/* Says weft_shared_get this of a tunable? Of the number the form may be another. */
static bool holds(const char *one, const char *all)
{
	const char *equals = strchr(one, '=');
	char wanted[TEXT], spaced[TEXT + 2];

	REQUIRE(equals);
	if (!strncmp(one, "window=", 7) || !strncmp(one, "longest-kb=", 11) || !strncmp(one, "program-kb=", 11))
		return true;	/* the values that they have */
	snprintf(wanted, sizeof(wanted), " %.*s=%llu ", (int)(equals - one), one, strtoull(equals + 1, NULL, 10));
	snprintf(spaced, sizeof(spaced), " %s ", all);
	return strstr(spaced, wanted);
}

/* Each that the text names, as it names it last. */
static void check_set(char *text, const char *all)
{
	char *one[TEXT / 2], *rest = text;
	unsigned n = 0;

	for (char *at; (at = strtok_r(rest, " ,", &rest)); n++)
		one[n] = at;
	REQUIRE(n);
	for (unsigned i = 0; i < n; i++) {
		bool is_last = true;

		for (unsigned k = i + 1; k < n; k++)
			is_last &= strncmp(one[i], one[k], strcspn(one[i], "=") + 1) != 0;
		REQUIRE(!is_last || holds(one[i], all));
	}
}

/* What no text may break. */
static void check_sense(const char *all)
{
	unsigned each, floor, percent, low, high, growth, most, watch, fixed, period;

	REQUIRE(sscanf(all, "each=%u floor=%u low-percent=%u low=%u high=%u growth=%u most=%u watch=%u fixed=%u period-ms=%u",
		       &each, &floor, &percent, &low, &high, &growth, &most, &watch, &fixed, &period) == 10);
	REQUIRE(each && each <= most && most <= w.buffers && floor <= each && percent && percent < 100 && growth);
	REQUIRE(low < most && high <= most && (!low || !high || low < high) && fixed <= most && period && period <= 3600000);
}

static void set_tunables(void)
{
	const struct picture before = picture();
	char *text = make_text(), *was = strdup(text);
	int got;

	REQUIRE(was);
	w.has_failed = false;
	got = weft_shared_set(w.shared, text);
	REQUIRE(!strcmp(text, was));
	REQUIRE(got == 0 || got == -EINVAL || got == -ENOENT || got == -ENOSPC || (got == -EIO && w.has_failed));
	if (got && got != -EIO) {
		check_unchanged(&before);
	} else {
		w.is_behind = w.has_failed;
		check_set(text, picture().text);
		check_sense(picture().text);
	}
	free(was);
	free(text);
}

static void get_tunables(void)
{
	const struct picture before = picture();
	size_t room = take_byte(&w.in) * 2u, bytes = strlen(before.text);
	char *text = malloc(room);

	REQUIRE(text || !room);
	REQUIRE(weft_shared_get(w.shared, room ? text : NULL, room) == bytes);
	if (room) {
		REQUIRE(strlen(text) == (bytes < room ? bytes : room - 1));
		REQUIRE(!strncmp(text, before.text, room - 1));
	}
	free(text);
	/* what is told may be set, and is the same */
	w.has_failed = false;
	REQUIRE(!weft_shared_set(w.shared, before.text) || w.has_failed);
	w.is_behind = w.has_failed;
	REQUIRE(!strcmp(picture().text, before.text));
}

/* ---- its life ---- */

/* A new QP of the same CQ, which has what has come for the last one. */
static void make_qp(uint8_t what)
{
	w.abi.ibv.qp_base = (struct ibv_qp){ .context = &w.ctx, .pd = &w.pd, .recv_cq = &w.cq, .send_cq = &w.cq,
					     .qp_num = w.abi.ibv.qp_base.qp_num + 1, .qp_type = IBV_QPT_UD };
	w.abi.qp = &w.qp;
	w.qp.datagrams_dropped = what;
	w.queued = 0;
	w.receives_most = what % 64;
	w.state = IBV_QPS_RTS;
}

static void create(void)
{
	static struct ibv_srq srq;
	uint8_t how = take_byte(&w.in), size = take_byte(&w.in);
	static const uint32_t lengths[] = { 0, 1, 2, 24, 100, BYTES_MOST, BYTES_MOST + 1, UINT32_MAX };
	struct weft_shared_options o = { .message_bytes = lengths[size % 8], .arg = &w, .told = how & 1 ? hear : NULL };
	bool is_possible;

	make_qp(take_byte(&w.in));
	if (how & 2)
		o.most = take_byte(&w.in) % (BUFFERS + 1);
	if (how & 4)
		o.each = take_byte(&w.in) % (BUFFERS + 8);
	if (how & 8)
		o.fixed = take_byte(&w.in) % (BUFFERS + 8);
	if (how & 16 && size & 8)
		o.most = GSA_MOST + 1 + (uint32_t)take(&w.in, 3);
	w.has_key = how & 32;
	o.key = w.has_key ? choose_key : NULL;
	if ((how & 0xc0) == 0xc0) {
		w.registration_fails = size & 16;
		w.query_fails = size & 32;
		if (size & 64)
			w.abi.ibv.qp_base.qp_type = IBV_QPT_RC;
		if (size & 128)
			w.abi.ibv.qp_base.srq = &srq;
		w.state = size & 0xf0 ? IBV_QPS_RTS : size & 8 ? IBV_QPS_RESET : IBV_QPS_ERR;
	}
	w.bytes = o.message_bytes ? o.message_bytes : GSA_MAD_BYTES;
	w.buffers = o.most ? o.most : w.receives_most;
	is_possible = !w.registration_fails && !w.query_fails && w.abi.ibv.qp_base.qp_type == IBV_QPT_UD &&
		      !w.abi.ibv.qp_base.srq && w.state == IBV_QPS_RTS && w.bytes <= BYTES_MOST && w.buffers &&
		      w.buffers <= GSA_MOST && o.each <= w.buffers && o.fixed <= w.buffers;
	if (!is_possible)
		w.buffers = 0;
	for (uint32_t i = 0; i < w.buffers; i++)
		w.buffer[i].where = FREE;
	memset(w.client, 0, sizeof(w.client));
	w.arrivals = w.unknown = w.discards = w.dropped = 0;
	w.has_failed = w.is_behind = false;
	errno = 0;
	w.shared = weft_shared_create(&w.abi.ibv.qp_base, &o);
	REQUIRE(w.shared ? is_possible : !is_possible && (errno == EINVAL || errno == ANY_FAILURE) && !w.is_registered);
	w.is_behind = w.has_failed;
	w.registration_fails = w.query_fails = false;
}

static void destroy(void)
{
	bool may = !outstanding() || w.state == IBV_QPS_ERR || w.state == IBV_QPS_RESET;
	const struct picture before = picture();
	int got = weft_shared_destroy(w.shared);

	REQUIRE(got == (may ? 0 : -EBUSY));
	if (got) {
		check_unchanged(&before);
		return;
	}
	REQUIRE(!w.is_registered);
	w.shared = NULL;
	w.buffers = 0;
}

static void step(void)
{
	uint8_t what = take_byte(&w.in);

	if (!w.shared) {
		create();
		return;
	}
	switch (what % 16) {
	case 0:
		enrol();
		break;
	case 1:
		leave(number_of_client());
		break;
	case 2:
		change_number();
		break;
	case 3:
		set_tunables();
		break;
	case 4:
		get_tunables();
		break;
	case 5:
		if (what & 0xc0)
			w.now += take_byte(&w.in) * (WTIME_S / 64);
		else
			change_state(take_byte(&w.in));
		break;
	case 6:
		w.posts_fail = what >> 6;
		w.cq_fails = what & 0x20;
		if (what & 0x10)
			arrive_elsewhere();
		break;
	case 7:
		destroy();
		break;
	case 8:
	case 9:
		release();
		break;
	case 10:
	case 11:
		poll();
		break;
	default:
		for (unsigned n = 0; n < 1 + what / 64; n++)
			arrive();
	}
	if (w.shared)
		check();
}

/* All clients leave, all that has come is taken in, and nothing is left. */
static void end(void)
{
	struct weft_shared_counts all;

	w.posts_fail = 0;
	w.cq_fails = false;
	for (int i = 0; i < CLIENTS; i++)
		if (w.client[i].is_used)
			leave(i);
	change_state(1);
	while (w.entries)
		poll();
	check();
	REQUIRE(!weft_shared_counts(w.shared, -1, &all) && !all.held && !all.target && !all.automatic);
	REQUIRE(count(FREE) + count(LOST) == w.buffers);
	destroy();
	REQUIRE(!w.shared);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	w.in = (struct input){ data, data + size };
	w.now = WTIME_S;
	w.ctx.ops.post_recv = take_receive;
	w.ctx.ops.poll_cq = give_completion;
	w.cq.context = &w.ctx;
	w.abi.ibv.qp_base.qp_num = 1;
	w.entries = 0;
	w.posts_fail = 0;
	w.cq_fails = false;
	for (int i = 0; i < STEPS && w.in.at < w.in.end; i++)
		step();
	if (w.shared)
		end();
	return 0;
}
