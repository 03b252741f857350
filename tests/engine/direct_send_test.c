/* Direct messages between two nodes, among packets: they cross a channel of their own, so any order of both, messages that
 * find no room, memory that cannot be read, receives that come late and lost packets all happen. Each run ends in exact
 * delivery, in order, or in a clean error. Arguments: runs, first seed. */
#include "direct_stubs.h"
#include "traffic.h"

#include "direct/record.h"
#include "ib/direct_send.h"
#include "ib/engine.h"

enum { RECORDS = 64, ALL = 100 };

static unsigned runs = 2000;
static uint64_t first_seed = 1;

struct record {
	uint8_t bytes[RECORD_MAX_BYTES];
	size_t length;
};

/* The channel, its two directions by who receives. */
static struct {
	struct pair *pair;
	struct rand rand;
	struct record ring[2][RECORDS];
	unsigned head[2], tail[2];
	psn_t received[2];		/* what each side shows */
	unsigned refuses;		/* so many of a hundred times */
	bool in_order;			/* no message overtakes a packet, nor the other way round, as in one ring */
	bool stays;			/* a path that was found is current until something is refused */
	uint64_t sends, pulls;
	uint64_t shorts;		/* of the sends */
	unsigned turns;			/* executed */
	unsigned last_turn, last_send, last_pull;	/* all after so many are refused, or 0 */
} channel;

static int side_of(const void *owner)
{
	return channel.pair->side[1].node == owner;
}

static bool refuses(void)
{
	return rand_below(&channel.rand, ALL) < channel.refuses;
}

/* A current path is not asked for again. */
static bool connect(void *owner, struct qp *qp)
{
	static const _Atomic uint64_t shown = 2;
	bool found = !refuses();

	(void)owner;
	qp->direct_path = (struct direct_path){
		.channel = &channel, .entry = found && channel.stays ? &shown : NULL, .sequence = 2,
	};
	return found;
}

/* For the next message, or NULL. */
static struct record *next_record(const void *owner)
{
	int to = !side_of(owner);

	if (channel.tail[to] - channel.head[to] == RECORDS || refuses() ||
	    (channel.last_send && channel.sends == channel.last_send))
		return NULL;
	if (channel.in_order && channel.pair->side[!to].node->under_way)
		return NULL;
	channel.sends++;
	return &channel.ring[to][channel.tail[to]++ % RECORDS];
}

static bool send(void *owner, struct qp *qp, const struct direct_message *m)
{
	struct record *r = next_record(owner);

	(void)qp;
	if (!r)
		return false;
	r->length = record_bytes(m);
	assert_true(r->length <= sizeof(r->bytes));
	record_build(m, r->bytes);
	return true;
}

static bool send_short(void *owner, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited)
{
	struct record *r = next_record(owner);

	if (!r)
		return false;
	r->length = RECORD_HEAD_BYTES + (size_t)bytes;
	record_build_short(r->bytes, qp->attr.dest_qp_num, qp->qpn, psn, received, (struct direct_promise){ 0 }, data,
			   bytes, solicited);
	channel.shorts++;
	return true;
}

static bool read_memory(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)address;

	(void)peer;
	for (unsigned i = 0; i < iovs; bytes -= (uint32_t)iov[i].iov_len, from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
	assert_int_equal(bytes, 0);
	return true;
}

static bool pull(void *owner, struct qp *qp, const struct direct_message *m, uint32_t offset, const struct iovec *to,
		 unsigned tos)
{
	static const struct rma_mover mover = { .read = read_memory };

	(void)owner;
	(void)qp;
	if (channel.last_pull && channel.pulls == channel.last_pull)
		return false;
	channel.pulls++;
	return !refuses() && record_pull(m, offset, &mover, NULL, to, tos);
}

static void publish(void *owner, struct qp *qp, psn_t received)
{
	(void)qp;
	channel.received[side_of(owner)] = received;
}

static bool received(void *owner, struct qp *qp, psn_t *psn)
{
	(void)qp;
	*psn = channel.received[!side_of(owner)];
	return !refuses();
}

/* Writes and reads; atomics are left to packets. */
static bool execute(void *owner, struct qp *qp, struct direct_request *r)
{
	struct qp *remote = channel.pair->side[!side_of(owner)].qp;
	bool is_write = r->op == OP_WRITE;
	uint64_t va = r->va;
	struct mr *mr;

	(void)qp;
	if ((!is_write && r->op != OP_READ_REQUEST) || refuses() || (channel.last_turn && channel.turns == channel.last_turn) ||
	    remote_check(remote, r->rkey, va, r->bytes, is_write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ,
			 &mr) != REMOTE_OK)
		return false;
	channel.turns++;
	for (unsigned i = 0; i < r->iovs; va += r->iov[i++].iov_len)
		assert_int_equal(is_write ? mr_write(mr, va, r->iov[i].iov_base, (uint32_t)r->iov[i].iov_len) :
				 mr_read(mr, va, r->iov[i].iov_base, (uint32_t)r->iov[i].iov_len), 0);
	return true;
}

static enum direct_write write(void *owner, struct qp *qp, uint32_t rkey, uint64_t va, const void *data, uint32_t bytes)
{
	const struct iovec iov = { (void *)(uintptr_t)data, bytes };
	struct direct_request r = { .op = OP_WRITE, .rkey = rkey, .va = va, .bytes = bytes, .iov = &iov, .iovs = 1 };

	return execute(owner, qp, &r) ? WRITE_DONE : WRITE_REFUSED;
}

static bool reaches(void *owner, struct qp *qp)
{
	(void)owner;
	(void)qp;
	return true;
}

static void no_lock(void *owner)
{
	(void)owner;
}

static const struct direct_ops direct = {
	.publish_mr = show_no_mr, .unpublish_mr = unpublish_mr, .publish_qp = show_no_qp, .unpublish_qp = show_no_qp,
	.execute = execute, .write = write,
	.reaches = reaches, .connect = connect, .send = send, .send_short = send_short, .pull = pull, .publish = publish,
	.received = received, .atomic_begin = no_lock, .atomic_end = no_lock,
};

static void open_channel(struct pair *pair, uint64_t seed)
{
	memset(&channel, 0, sizeof(channel));
	channel.pair = pair;
	rand_seed(&channel.rand, seed);
	channel.refuses = rand_below(&channel.rand, 2) ? 0 : (unsigned)rand_below(&channel.rand, 20);
	channel.in_order = rand_below(&channel.rand, 2);
	channel.stays = rand_below(&channel.rand, 2);
	for (int i = 0; i < 2; i++) {
		pair->side[i].node->ca.direct = &direct;
		pair->side[i].qp->published = 1;
		channel.received[i] = psn_add(pair->side[i].qp->attr.rq_psn, -1);
	}
}

static bool deliver(int side)
{
	struct ca *ca = &channel.pair->side[side].node->ca;
	struct iovec iov[DIRECT_IOVS];
	struct direct_message m;
	struct record r;

	if (channel.head[side] == channel.tail[side])
		return false;
	r = channel.ring[side][channel.head[side]++ % RECORDS];
	assert_true(record_parse(&m, r.bytes, r.length, iov));
	ca_message(ca, channel.pair->sim->now, &channel, &m);
	sim_pump(channel.pair->sim);
	return true;
}

static bool step(void)
{
	bool any = false;

	for (int side = 0; channel.in_order && side < 2; side++)
		while (deliver(side))
			any = true;
	return sim_step(channel.pair->sim) || any;
}

static bool collect(int side)
{
	bool any = ca_read_acks(&channel.pair->side[side].node->ca, channel.pair->sim->now, UINT32_MAX);

	sim_pump(channel.pair->sim);
	return any;
}

static void plan(struct traffic *t, struct rand *r)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE,
	};
	static const uint32_t most[] = { 9, 300, 5000, 30000 };

	for (int side = 0; side < 2; side++)
		for (uint64_t n = rand_below(r, TRAFFIC_OPS); n; n--)
			if (!traffic_add(t, side, opcodes[rand_below(r, 8)], (uint32_t)rand_below(r, most[rand_below(r, 4)]),
					 (rand_below(r, 4) ? IBV_SEND_SIGNALED : 0) | (rand_below(r, 8) ? 0 : IBV_SEND_FENCE),
					 rand_below(r, 1000)))
				break;
}

/* As a program that polls. */
static bool settle(int side)
{
	bool any = ca_ack_postponed(&channel.pair->side[side].node->ca, channel.pair->sim->now);

	sim_pump(channel.pair->sim);
	return any;
}

/* Posts, receives, packets and messages in any order, then until all has come to rest. */
static void drive(struct traffic *t, struct rand *r)
{
	bool more = true;

	for (unsigned idle = 0; idle < 100; idle++) {
		int side = (int)rand_below(r, 2);
		uint64_t what = rand_below(r, 7);

		switch (what) {
		case 0:
		case 1:
			idle = traffic_post_one(t, side, what) ? 0 : idle;
			break;
		case 2:
			collect(side);
			break;
		case 3:
			step();
			break;
		case 4:
			settle(side);
			break;
		default:
			deliver(side);
		}
		traffic_poll(t);
	}
	while (more) {
		more = false;
		for (int side = 0; side < 2; side++) {
			while (traffic_post_receive(t, side) || deliver(side) || traffic_post(t, side))
				more = true;
			more |= collect(side);
			more |= settle(side);
		}
		more |= step();
		traffic_poll(t);
	}
}

struct outcome {
	bool delivered;
	const char *fault;
	uint64_t local, packets, refused;
};

static struct outcome run(uint64_t seed)
{
	struct outcome outcome;
	struct pair_config config;
	struct traffic t;
	struct rand r;

	rand_seed(&r, seed);
	config = (struct pair_config){
		.sim = { .seed = rand_u64(&r),
			 .link = { .delay_ns = 100 + rand_below(&r, 3000), .loss = rand_below(&r, 3) ? 0 : 50000 } },
		.mtu = IBV_MTU_256 + (enum ibv_mtu)rand_below(&r, 5), .memory_bytes = 1 << 20,
		.psn = { psn_add(0, -(int64_t)rand_below(&r, 20)), (psn_t)rand_below(&r, 1 << 24) },
		.timeout = 6, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1, .rd_atomic = 1 + (uint8_t)rand_below(&r, 4),
		.shared_receives = rand_below(&r, 2), .unsignaled = true,
	};
	traffic_init(&t, pair_new(&config));
	open_channel(t.pair, rand_u64(&r));
	for (int side = 0; side < 2; side++)
		t.pair->side[side].node->ca.acks.postpones = rand_below(&r, 2);
	plan(&t, &r);
	drive(&t, &r);
	outcome = (struct outcome){ .delivered = traffic_settle(&t), .fault = t.fault, .local = channel.sends };
	for (int i = 0; i < 2; i++) {
		outcome.packets += t.pair->side[i].node->ca.counters.sent_pkts;
		outcome.refused += t.pair->side[i].node->ca.counters.send_rnr_err;
	}
	if (!outcome.delivered && !outcome.fault && channel.in_order && !config.sim.link.loss)
		outcome.fault = "failed without a fault";
	pair_delete(t.pair);
	return outcome;
}

/* What is in a burst has not left yet: a message, which is in the channel at once, waits for it. */
static void no_message_passes_packets_of_its_burst(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .type = IBV_QPT_RC });
	struct ca *ca = &pair->side[0].node->ca;
	struct burst burst;

	(void)state;
	open_channel(pair, 1);
	channel.refuses = 0;
	sim_stop(pair->sim, 0);		/* the test takes its bursts */
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8 });
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_SEND, .bytes = 8 });
	assert_int_equal(ca_output(ca, pair->sim->now, &burst), 1);
	assert_int_equal(burst.out[0].packet.opcode, OPCODE_RC_FETCH_ADD);
	assert_int_equal(channel.sends, 0);
	assert_int_equal(ca_output(ca, pair->sim->now, &burst), 0);
	assert_int_equal(channel.sends, 1);
	pair_delete(pair);
}

static void every_run_ends_well(void **state)
{
	struct outcome sum = { 0 };
	unsigned delivered = 0;

	for (unsigned i = 0; i < runs; i++) {
		struct outcome outcome = run(first_seed + i);

		if (outcome.fault)
			fail_msg("seed %llu: %s", (unsigned long long)(first_seed + i), outcome.fault);
		delivered += outcome.delivered;
		sum.local += outcome.local;
		sum.packets += outcome.packets;
		sum.refused += outcome.refused;
	}
	printf("%u runs, %u delivered; %llu direct messages, %llu packets, %llu times not ready\n", runs, delivered,
	       (unsigned long long)sum.local, (unsigned long long)sum.packets, (unsigned long long)sum.refused);
	assert_true(delivered > runs * 19 / 20 && sum.local && sum.packets && sum.refused);
}

/* One send each way: nothing but its message crosses, and the word completes it. */
static void a_send_needs_no_packet(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .psn = { 0xffffff, 5 } });
	struct cqe cqe;

	open_channel(pair, 1);
	channel.refuses = 0;
	for (int side = 0; side < 2; side++) {
		memset(pair->side[side].memory, 0x41 + side, 3000);
		assert_int_equal(pair_recv(pair, !side, 7, 8192, 4000), 0);
		post_wr(pair, side, (struct pair_wr){ .wr_id = 9, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED,
						      .bytes = 3000 });
		assert_false(pair_poll_recv(pair, !side, &cqe));
		assert_true(deliver(!side));
		assert_true(pair_poll_recv(pair, !side, &cqe));
		assert_int_equal(cqe.byte_len, 3000);
		assert_memory_equal(pair->side[!side].memory + 8192, pair->side[side].memory, 3000);
		assert_false(pair_poll_send(pair, side, &cqe));
		collect(side);
		assert_true(pair_poll_send(pair, side, &cqe));
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		assert_int_equal(pair->side[side].node->ca.counters.sent_pkts, 0);
		assert_int_equal(pair->side[side].node->ca.counters.direct_sends, 1);
	}
	pair_delete(pair);
}

enum { TWINS = 300, QUEUED = 30, MOST_INLINE = 64 };

/* What can be seen of a send queue. */
struct queue_seen {
	uint32_t written, rung, credits, reaped, announced, fetched, started, completed, after_lkey;
	uint64_t after;
};

struct history {
	struct record sent[TWINS];
	struct flight flight[TWINS];
	struct flight_entry entry[TWINS];
	struct queue_seen queue[TWINS];
	struct cqe cqe[TWINS];
	uint64_t bytes_sent, messages_sent, direct_sends, direct_bytes, shorts, inlines;
};

static struct queue_seen see(const struct wq *wq)
{
	return (struct queue_seen){
		wq->ulp.written, wq->ulp.rung, wq->ulp.credits, wq->ulp.reaped, wq->engine.announced, wq->engine.fetched,
		wq->engine.started, wq->engine.completed, wq->engine.after_lkey, wq->engine.after,
	};
}

static void clear_up(struct pair *pair, struct cqe *sent, unsigned *completions)
{
	struct cqe received;

	while (deliver(1))
		;
	collect(0);
	while (pair_poll_send(pair, 0, &sent[*completions])) {
		sent[*completions].timestamp_ns = 0;
		assert_int_equal(sent[(*completions)++].status, IBV_WC_SUCCESS);
	}
	while (pair_poll_recv(pair, 1, &received))
		assert_int_equal(received.status, IBV_WC_SUCCESS);
}

static unsigned flags_of(struct rand *r, uint32_t bytes)
{
	unsigned flags = (rand_below(r, 2) ? IBV_SEND_SIGNALED : 0) | (rand_below(r, 4) ? 0 : IBV_SEND_SOLICITED) |
			 (rand_below(r, 4) ? 0 : IBV_SEND_FENCE);

	return bytes <= MOST_INLINE && rand_below(r, 2) ? flags | IBV_SEND_INLINE : flags;
}

/* Small sends, cut into so many pieces. `stays`: the path to the peer does not have to be asked for. */
static struct history *new_history(uint64_t seed, uint32_t pieces, bool stays)
{
	struct pair *pair = pair_new(&(struct pair_config){ .sim.seed = seed, .psn = { psn_add(0, -20), 5 }, .mtu = IBV_MTU_256,
						       .sends = QUEUED, .recvs = QUEUED, .unsignaled = true });
	const struct flight *f = &((struct engine *)pair->side[0].qp->engine)->flight;
	const struct qp *qp = pair->side[0].qp;
	struct history *h = calloc(1, sizeof(*h));
	unsigned completions = 0;
	struct rand r;

	assert_non_null(h);
	rand_seed(&r, seed);
	open_channel(pair, seed);
	channel.refuses = 0;
	channel.stays = stays;
	pattern_fill(pair->side[0].memory, 4096, (uint32_t)seed);
	for (unsigned i = 0; i < TWINS; i++) {
		struct pair_wr wr = { .wr_id = i, .opcode = IBV_WR_SEND, .pieces = pieces,
				      .local = (uint32_t)rand_below(&r, 2000) };

		wr.bytes = 2 + (uint32_t)rand_below(&r, rand_below(&r, 2) ? 300 : MOST_INLINE);
		wr.flags = flags_of(&r, wr.bytes);
		h->inlines += !!(wr.flags & IBV_SEND_INLINE);
		assert_int_equal(pair_recv(pair, 1, i, 8192, 4000), 0);
		assert_int_equal(pair_send(pair, 0, &wr), 0);
		h->sent[i] = channel.ring[1][(channel.tail[1] - 1) % RECORDS];
		h->flight[i] = *f;
		h->flight[i].entry = NULL;
		h->entry[i] = *flight_at(f, f->newest - 1);
		h->queue[i] = see(&qp->sq);
		if (rand_below(&r, 8) == 0 || channel.tail[1] - channel.head[1] == QUEUED || !qp->sq.ulp.credits)
			clear_up(pair, h->cqe, &completions);
	}
	assert_int_equal(channel.sends, TWINS);
	h->bytes_sent = qp->bytes_sent;
	h->messages_sent = qp->messages_sent;
	h->direct_sends = qp->ca->counters.direct_sends;
	h->direct_bytes = qp->ca->counters.direct_bytes;
	h->shorts = channel.shorts;
	pair_delete(pair);
	return h;
}

/* A short send goes a shorter way than the same in two pieces, and another one when it is sent as it is posted, where inline
 * pieces are joined: neither its peer nor the books can tell. */
static void the_short_way_is_the_long_one(void **state)
{
	for (uint64_t seed = first_seed; seed < first_seed + 20; seed++) {
		struct history *at_once = new_history(seed, 1, true), *brief = new_history(seed, 1, false);
		struct history *any = new_history(seed, 2, false), *joined = new_history(seed, 2, true);

		assert_true(brief->shorts > 0 && brief->shorts < TWINS);
		assert_true(any->shorts > 0 && any->shorts <= any->inlines);
		any->shorts = joined->shorts = brief->shorts;
		if (memcmp(brief, any, sizeof(*brief)) != 0 || memcmp(at_once, brief, sizeof(*brief)) != 0 ||
		    memcmp(joined, brief, sizeof(*brief)) != 0)
			fail_msg("seed %llu: not the same", (unsigned long long)seed);
		free(at_once);
		free(brief);
		free(any);
		free(joined);
	}
}

/* Inline pieces that would be joined are no more than a QP takes: neither bytes nor pieces. */
static void joined_pieces_are_not_too_many(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ 0 });
	const uintptr_t memory = (uintptr_t)pair->side[0].memory;
	struct qp *qp = pair->side[0].qp;
	struct ibv_sge sge[] = { { memory, 40, 0 }, { 0, 0, 0 }, { memory, 40, 0 } };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = sge, .num_sge = 3 };

	open_channel(pair, 1);
	channel.refuses = 0;
	channel.stays = true;
	assert_int_equal(pair_recv(pair, 1, 1, 8192, 64), 0);
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_SEND, .bytes = 8 });
	assert_true(deliver(1));
	collect(0);
	qp->cap.max_send_sge = 3;
	qp->cap.max_inline_data = 79;
	assert_int_equal(qp_post_send(qp, pair->sim->now, &wr, &bad), -EINVAL);
	qp->cap.max_inline_data = 80;
	qp->cap.max_send_sge = 2;
	assert_int_equal(qp_post_send(qp, pair->sim->now, &wr, &bad), -EINVAL);
	assert_int_equal(channel.sends, 1);
	pair_delete(pair);
}

enum obstacle { NOTHING, A_FENCE, A_DRAIN, A_FULL_WINDOW, OBSTACLES };

/* A pair of which side 0 has posted a short send that this stands before, behind one that was executed. */
static struct pair *new_hindered_pair(enum obstacle before)
{
	struct pair *pair = pair_new(&(struct pair_config){ 0 });
	struct pair_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 8 };
	struct ibv_qp_attr drain = { .qp_state = IBV_QPS_SQD };

	open_channel(pair, 1);
	channel.refuses = 0;
	channel.stays = true;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pair_recv(pair, 1, i, 8192, 64), 0);
	post_wr(pair, 0, wr);
	assert_true(deliver(1));
	if (before != A_FULL_WINDOW)
		collect(0);
	engine_of(pair->side[0].qp)->flight.limit = before == A_FULL_WINDOW;
	if (before == A_FENCE)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8 });
	if (before == A_DRAIN)
		assert_int_equal(qp_modify(pair->side[0].qp, pair->sim->now, &drain, IBV_QP_STATE), 0);
	wr.flags |= before == A_FENCE ? IBV_SEND_FENCE : 0;
	post_wr(pair, 0, wr);
	return pair;
}

/* A short send is sent as it is posted, but for what all sends wait for. */
static void a_short_send_waits_for_what_all_wait_for(void **state)
{
	for (enum obstacle before = NOTHING; before < OBSTACLES; before++) {
		struct pair *pair = new_hindered_pair(before);

		assert_int_equal(channel.sends, before == NOTHING ? 2 : 1);
		if (before == A_DRAIN)
			assert_int_equal(qp_modify(pair->side[0].qp, pair->sim->now, &(struct ibv_qp_attr){
				.qp_state = IBV_QPS_RTS }, IBV_QP_STATE), 0);
		if (before == A_FULL_WINDOW)
			collect(0);
		pair_run(pair);
		assert_int_equal(channel.sends, 2);
		pair_delete(pair);
	}
}

/* What is to be sent again goes first. */
static void a_short_send_passes_no_repeat(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ 0 });
	struct pair_wr wr = { .opcode = IBV_WR_SEND, .bytes = 8 };

	open_channel(pair, 1);
	channel.refuses = 0;
	channel.stays = true;
	sim_stop(pair->sim, 0);		/* packets stay */
	for (unsigned i = 0; i < 2; i++)
		post_wr(pair, 0, wr);
	assert_int_equal(channel.sends, 2);
	flight_rewind_all(&engine_of(pair->side[0].qp)->flight);
	post_wr(pair, 0, wr);
	assert_int_equal(channel.sends, 2);
	pair_delete(pair);
}

/* What was sent as it was posted, in one piece or inline, and is lost then, goes as packets as it was. */
static void a_send_that_was_sent_at_once_can_be_repeated(void **state)
{
	for (unsigned flags = 0; flags <= IBV_SEND_INLINE; flags += IBV_SEND_INLINE) {
		struct pair *pair = pair_new(&(struct pair_config){ .retry_cnt = 7 });
		struct pair_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED | flags, .bytes = 40 };

		open_channel(pair, 1);
		channel.refuses = 0;
		channel.stays = true;
		for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++, wr.local += 64) {
			assert_int_equal(pair_recv(pair, 1, wr.wr_id, 8192 + 64 * (uint32_t)wr.wr_id, 64), 0);
			pattern_fill(pair->side[0].memory + wr.local, 40, (uint32_t)wr.wr_id);
			post_wr(pair, 0, wr);
			if (wr.wr_id == 1)
				assert_true(deliver(1));
			if (flags)
				memset(pair->side[0].memory + wr.local, 0, 40);
		}
		channel.head[1] = channel.tail[1];	/* the second is lost */
		collect(0);
		pair_run(pair);
		for (uint32_t id = 1; id <= 2; id++) {
			expect_sent(pair, 0, id, IBV_WC_SUCCESS);
			expect_received(pair, 1, id, IBV_WC_SUCCESS);
			assert_true(pattern_holds(pair->side[1].memory + 8192 + 64 * id, 40, id));
		}
		assert_true(pair->side[0].node->ca.counters.sent_pkts > 0);
		pair_delete(pair);
	}
}

/* Nobody tells UC's sender that its message was taken, and its buffer is the program's again at once. */
static void an_unreliable_send_outlives_its_buffer(void **state)
{
	static const uint32_t lengths[] = { DIRECT_EAGER_MAX, DIRECT_EAGER_MAX + 1 };

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct pair *pair = pair_new(&(struct pair_config){ .type = IBV_QPT_UC });

		open_channel(pair, 1);
		channel.refuses = 0;
		channel.in_order = true;
		pattern_fill(pair->side[0].memory, lengths[i], 1);
		assert_int_equal(pair_recv(pair, 1, 7, 16384, lengths[i]), 0);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 9, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED,
						   .bytes = lengths[i] });
		expect_sent(pair, 0, 9, IBV_WC_SUCCESS);
		memset(pair->side[0].memory, 0, lengths[i]);
		while (step())
			;
		expect_received(pair, 1, 7, IBV_WC_SUCCESS);
		assert_true(pattern_holds(pair->side[1].memory + 16384, lengths[i], 1));
		pair_delete(pair);
	}
}

/* A message that asks for it wakes who waits for solicited completions alone; any other does not. */
static void solicited_messages_wake(void **state)
{
	static const uint32_t lengths[] = { 8, DIRECT_EAGER_MAX + 1 };

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct pair *pair = pair_new(&(struct pair_config){ 0 });
		unsigned flags = i % 2 ? IBV_SEND_SOLICITED : 0;

		open_channel(pair, 1);
		channel.refuses = 0;
		assert_int_equal(pair_recv(pair, 1, 7, 16384, lengths[i / 2]), 0);
		cq_arm(pair->side[1].recv_cq, true);
		post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED | flags,
						   .bytes = lengths[i / 2] });
		assert_true(deliver(1));
		assert_int_equal(pair->side[1].node->cq_events, i % 2);
		pair_delete(pair);
	}
}

/* The answer tells that the question was executed: no word is read. */
static void an_answer_acknowledges(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ 0 });
	struct cqe cqe;

	open_channel(pair, 1);
	channel.refuses = 0;
	for (int side = 0; side < 2; side++) {
		assert_int_equal(pair_recv(pair, !side, 7, 8192, 64), 0);
		post_wr(pair, side, (struct pair_wr){ .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 8 });
		assert_true(deliver(!side));
		assert_true(pair_poll_recv(pair, !side, &cqe));
	}
	assert_true(pair_poll_send(pair, 0, &cqe));
	assert_false(pair_poll_send(pair, 1, &cqe));
	pair_delete(pair);
}

/* A pair of which side 0 has sent `requests`, and has the answer that acknowledges them all, postponed. */
static struct pair *new_answered_pair(unsigned requests)
{
	struct pair *pair = pair_new(&(struct pair_config){ 0 });
	struct pair_wr wr = { .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 8 };

	open_channel(pair, 1);
	channel.refuses = 0;
	pair->side[0].node->ca.acks.postpones = true;
	assert_int_equal(pair_recv(pair, 0, 7, 8192, 64), 0);
	for (wr.wr_id = 1; wr.wr_id <= requests; wr.wr_id++) {
		assert_int_equal(pair_recv(pair, 1, wr.wr_id, 8192, 64), 0);
		post_wr(pair, 0, wr);
		assert_true(deliver(1));
	}
	post_wr(pair, 1, wr);
	assert_true(deliver(0));
	expect_received(pair, 0, 7, IBV_WC_SUCCESS);
	expect_nothing(pair, 0);
	return pair;
}

static void expect_all_sent(struct pair *pair, unsigned requests)
{
	for (unsigned i = 1; i <= requests; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	expect_nothing(pair, 0);
}

/* Where the program polls, what it waits for comes before what it has sent; nothing of that is ever forgotten. */
static void an_acknowledgement_may_wait_for_a_poll(void **state)
{
	enum { REQUESTS = 3 };
	struct pair *pair = new_answered_pair(REQUESTS);

	assert_true(settle(0));
	expect_all_sent(pair, REQUESTS);
	assert_false(settle(0));
	pair_delete(pair);
}

static void an_error_does_not_flush_what_was_acknowledged(void **state)
{
	struct pair *pair = new_answered_pair(2);

	qp_error(pair->side[0].qp, pair->sim->now, -1);
	expect_all_sent(pair, 2);
	pair_delete(pair);
}

static void a_reset_forgets_what_was_acknowledged(void **state)
{
	struct pair *pair = new_answered_pair(1);

	assert_int_equal(qp_modify(pair->side[0].qp, pair->sim->now, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET },
				   IBV_QP_STATE), 0);
	expect_nothing(pair, 0);
	assert_false(settle(0));
	pair_delete(pair);
}

/* Nothing is sent again for want of a poll. */
static void a_timer_settles_first(void **state)
{
	struct pair *pair = new_answered_pair(1);

	pair->side[1].node->deaf = true;
	channel.received[1] = psn_add(channel.received[1], -1);
	collect(0);
	pair_run(pair);
	expect_all_sent(pair, 1);
	assert_int_equal(pair->side[0].node->ca.counters.sent_pkts, 0);
	pair_delete(pair);
}

/* A write behind it needs no packet. */
static void a_write_settles_first(void **state)
{
	struct pair *pair = new_answered_pair(1);

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = 8 });
	expect_all_sent(pair, 2);
	assert_int_equal(pair->side[0].node->ca.counters.direct_writes, 1);
	pair_delete(pair);
}

/* The window has what was acknowledged free again for what is posted next. */
static void a_full_window_settles_first(void **state)
{
	enum { WINDOW = 3 };
	struct pair *pair = new_answered_pair(WINDOW);

	engine_of(pair->side[0].qp)->flight.limit = WINDOW;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = WINDOW + 1, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 8 });
	assert_int_equal(pair->side[0].qp->sq.engine.started, WINDOW + 1);
	expect_all_sent(pair, WINDOW);
	pair_delete(pair);
}

/* Whoever sleeps does not poll. */
static void an_armed_queue_does_not_wait(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ 0 });

	open_channel(pair, 1);
	channel.refuses = 0;
	pair->side[0].node->ca.acks.postpones = true;
	cq_arm(pair->side[0].send_cq, false);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(pair_recv(pair, !side, 7, 8192, 64), 0);
		post_wr(pair, side, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED,
						      .bytes = 8 });
		assert_true(deliver(!side));
	}
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[0].send_cq->arm, CQ_DISARMED);
	pair_delete(pair);
}

/* What its receiver refuses ends as it would with packets: RNR and a retry, or a status, on both sides. */
static void refusals_are_the_standards(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .rnr_retry = 7, .min_rnr_timer = 1 });
	struct pair_wr wr = { .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 9000 };
	struct cqe cqe;

	open_channel(pair, 1);
	channel.refuses = 0;
	post_wr(pair, 0, wr);
	assert_true(deliver(1));
	assert_int_equal(pair->side[1].node->ca.counters.send_rnr_err, 1);
	assert_int_equal(pair_recv(pair, 1, 1, 16384, 9000), 0);
	pair_run(pair);
	assert_true(pair_poll_send(pair, 0, &cqe) && cqe.status == IBV_WC_SUCCESS);
	assert_true(pair_poll_recv(pair, 1, &cqe) && cqe.status == IBV_WC_SUCCESS && cqe.byte_len == 9000);
	assert_true(pair->side[0].node->ca.counters.sent_pkts >= 9);
	/* all acknowledged: a direct message again, and this one is too long */
	assert_int_equal(pair_recv(pair, 1, 2, 16384, 8999), 0);
	post_wr(pair, 0, wr);
	assert_true(deliver(1));
	pair_run(pair);
	assert_true(pair_poll_recv(pair, 1, &cqe) && cqe.status == IBV_WC_LOC_LEN_ERR);
	assert_true(pair_poll_send(pair, 0, &cqe) && cqe.status == IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_ERR);
	pair_delete(pair);
}

/* A peer that died: nothing is executed, the timer runs, packets follow, and patience ends. */
static void silence_ends_in_a_status(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .retry_cnt = 2 });
	struct cqe cqe;

	open_channel(pair, 1);
	channel.refuses = 0;
	pair->side[1].node->deaf = true;
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 5000 });
	collect(0);
	pair_run(pair);
	assert_true(pair_poll_send(pair, 0, &cqe));
	assert_int_equal(cqe.status, IBV_WC_RETRY_EXC_ERR);
	pair_delete(pair);
}

/* Who chose how messages are acknowledged or completed gets the packets that show it. */
static void chosen_acknowledgements_are_packets(void **state)
{
	static const char *const profiles[] = {
		"standard,ack-level=process", "standard,complete=wqe", "seed,start-msn=exchange",
	};

	for (unsigned i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		struct pair_config config = { 0 };
		struct pair *pair;

		assert_int_equal(ib_options_parse(profiles[i], &config.options), 0);
		pair = pair_new(&config);
		open_channel(pair, 1);
		channel.refuses = 0;
		assert_int_equal(pair_recv(pair, 1, 7, 8192, 64), 0);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 7, .opcode = IBV_WR_SEND, .bytes = 8 });
		sim_run(pair->sim, pair->sim->now + 100000);
		expect_received(pair, 1, 7, IBV_WC_SUCCESS);
		pair_run(pair);
		expect_sent(pair, 0, 7, IBV_WC_SUCCESS);
		assert_int_equal(pair->side[0].node->ca.counters.direct_sends, 0);
		pair_delete(pair);
	}
}

/* ---- requests that take turns ---- */

enum { LONG_BYTES = 3 * DIRECT_SLICE + DIRECT_SLICE / 3, LONG_TURNS = 3, LONG_PIECES = 3, LONG_MEMORY = 4 * DIRECT_SLICE };

static void stop_both(struct pair *pair)
{
	for (int side = 0; side < 2; side++)
		sim_stop(pair->sim, side);
}

static void continue_both(struct pair *pair)
{
	for (int side = 0; side < 2; side++)
		sim_continue(pair->sim, side);
}

/* A pair whose nodes the test pumps itself. */
static struct pair *new_long_pair(void)
{
	struct pair *pair = pair_new(&(struct pair_config){ .memory_bytes = LONG_MEMORY, .timeout = 14, .retry_cnt = 7 });

	open_channel(pair, 1);
	channel.refuses = 0;
	channel.in_order = true;
	stop_both(pair);
	return pair;
}

/* From now on turns are taken, and packets travel, until nothing is under way. */
static void let_run(struct pair *pair)
{
	continue_both(pair);
	sim_pump(pair->sim);
	pair_run(pair);
}

/* One turn of what is under way. False: there is nothing. */
static bool take_turn(struct pair *pair, int side)
{
	struct ca *ca = &pair->side[side].node->ca;
	struct burst burst;

	assert_int_equal(ca_output(ca, pair->sim->now, &burst), 0);
	return ca_resume(ca);
}

static void post_long(struct pair *pair, enum ibv_wr_opcode opcode)
{
	pattern_fill(pair->side[opcode == IBV_WR_RDMA_READ].memory, LONG_BYTES, 7);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = opcode, .flags = IBV_SEND_SIGNALED,
					   .bytes = LONG_BYTES, .pieces = LONG_PIECES });
}

static void expect_long(const struct pair *pair, enum ibv_wr_opcode opcode)
{
	assert_true(pattern_holds(pair->side[opcode != IBV_WR_RDMA_READ].memory, LONG_BYTES, 7));
}

/* What was posted behind it waits, and its last bytes come last. */
static void a_long_request_takes_turns(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	for (unsigned i = 0; i < 2; i++) {
		struct pair *pair = new_long_pair();
		const struct counters *counters = &pair->side[0].node->ca.counters;

		post_long(pair, opcodes[i]);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED,
						   .local = LONG_BYTES, .remote = LONG_BYTES, .bytes = 8 });
		for (unsigned turns = channel.turns; turns < LONG_TURNS; turns++) {
			expect_nothing(pair, 0);
			assert_int_equal(channel.turns, turns);
			take_turn(pair, 0);
		}
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
		expect_long(pair, opcodes[i]);
		assert_false(take_turn(pair, 0));
		assert_int_equal(counters->sent_pkts, 0);
		assert_int_equal(counters->direct_writes + counters->direct_reads, 2);
		assert_int_equal(counters->direct_bytes, LONG_BYTES + 8);
		pair_delete(pair);
	}
}

/* Refused in the midst of it: packets have all of it, from its beginning. */
static void a_long_request_may_end_as_packets(void **state)
{
	for (unsigned last = 1; last < LONG_TURNS; last++) {
		struct pair *pair = new_long_pair();

		channel.last_turn = last;
		post_long(pair, IBV_WR_RDMA_WRITE);
		let_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		expect_long(pair, IBV_WR_RDMA_WRITE);
		assert_int_equal(pair->side[0].node->ca.counters.direct_writes, 0);
		assert_true(pair->side[0].node->ca.counters.sent_pkts >= LONG_BYTES / 1024);
		pair_delete(pair);
	}
}

/* IBA 9.7.4.1.5: the region goes in the midst of it. */
static void a_region_that_goes_refuses_the_rest(void **state)
{
	struct pair *pair = new_long_pair();

	post_long(pair, IBV_WR_RDMA_WRITE);
	assert_int_equal(mr_destroy(pair->side[1].mr), 0);
	let_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(channel.turns, 1);
	pair_delete(pair);
}

/* So does the initiator's own. */
static void a_long_request_needs_its_own_region(void **state)
{
	struct pair *pair = new_long_pair();

	post_long(pair, IBV_WR_RDMA_WRITE);
	assert_int_equal(mr_destroy(pair->side[0].mr), 0);
	let_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(channel.turns, 1);
	pair_delete(pair);
}

static void an_error_ends_a_long_request(void **state)
{
	struct pair *pair = new_long_pair();

	post_long(pair, IBV_WR_RDMA_WRITE);
	assert_true(take_turn(pair, 0));
	qp_error(pair->side[0].qp, pair->sim->now, -1);
	expect_sent(pair, 0, 1, IBV_WC_WR_FLUSH_ERR);
	assert_false(take_turn(pair, 0));
	assert_int_equal(channel.turns, 2);
	pair_delete(pair);
}

/* IBA 10.3.1.5: what was begun is finished, and then the queue is drained. */
static void draining_waits_for_a_long_request(void **state)
{
	struct pair *pair = new_long_pair();
	struct qp *qp = pair->side[0].qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	unsigned before = pair->side[0].node->events;

	post_long(pair, IBV_WR_RDMA_WRITE);
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(qp->attr.sq_draining, 1);
	assert_int_equal(pair->side[0].node->events, before);
	while (take_turn(pair, 0))
		assert_int_equal(qp->attr.sq_draining, 1);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(qp->attr.sq_draining, 0);
	assert_int_equal(pair->side[0].node->events, before + 1);
	expect_long(pair, IBV_WR_RDMA_WRITE);
	pair_delete(pair);
}

/* ---- sends that cross in parts ---- */

static void post_long_send(struct pair *pair)
{
	pattern_fill(pair->side[0].memory, LONG_BYTES, 7);
	assert_int_equal(pair_recv(pair, 1, 5, 0, LONG_BYTES), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND_WITH_IMM, .flags = IBV_SEND_SIGNALED,
					   .bytes = LONG_BYTES, .pieces = LONG_PIECES, .imm = 0x1234 });
}

static void expect_long_received(struct pair *pair)
{
	struct cqe cqe = expect_received(pair, 1, 5, IBV_WC_SUCCESS);

	assert_int_equal(cqe.byte_len, LONG_BYTES);
	assert_int_equal(be32toh(cqe.imm), 0x1234);
	assert_true(pattern_holds(pair->side[1].memory, LONG_BYTES, 7));
	expect_nothing(pair, 1);
}

/* With whatever window: each part is acknowledged for itself, the message completes with the last. */
static void a_long_send_crosses_in_parts(void **state)
{
	static const uint16_t windows[] = { 1, 2, IB_WINDOW };

	for (unsigned i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		struct pair_config config = { .memory_bytes = LONG_MEMORY, .timeout = 14, .options = ib_default_options };
		struct pair *pair;

		config.options.window_pkts = windows[i];
		pair = pair_new(&config);
		open_channel(pair, 1);
		channel.refuses = 0;
		post_long_send(pair);
		for (unsigned part = 1; part <= LONG_TURNS; part++) {
			expect_nothing(pair, 0);
			expect_nothing(pair, 1);
			assert_true(deliver(1));
			assert_int_equal(channel.pulls, part);
			collect(0);
		}
		assert_false(deliver(1));
		expect_long_received(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		assert_int_equal(pair->side[0].node->ca.counters.sent_pkts, 0);
		assert_int_equal(pair->side[0].node->ca.counters.direct_sends, 1);
		assert_int_equal(pair->side[0].node->ca.counters.direct_bytes, LONG_BYTES);
		pair_delete(pair);
	}
}

static void end_as_packets(struct pair *pair)
{
	while (deliver(1) || collect(0))
		;
	pair_run(pair);
	while (deliver(1) || collect(0))
		;
	pair_run(pair);
	expect_long_received(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_true(pair->side[0].node->ca.counters.sent_pkts > 0);
}

static struct pair *new_long_sender(void)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.memory_bytes = LONG_MEMORY, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
	});

	open_channel(pair, 1);
	channel.refuses = 0;
	channel.in_order = false;
	return pair;
}

/* Parts that cannot be sent, or not be pulled, come as packets behind those that were. */
static void a_long_send_may_end_as_packets(void **state)
{
	for (unsigned last = 1; last < LONG_TURNS; last++) {
		struct pair *pair = new_long_sender();

		channel.last_pull = last;
		post_long_send(pair);
		end_as_packets(pair);
		assert_int_equal(channel.pulls, last);
		pair_delete(pair);

		pair = new_long_sender();
		channel.in_order = true;
		channel.last_send = last;
		stop_both(pair);
		post_long_send(pair);
		while (deliver(1))
			;
		continue_both(pair);
		end_as_packets(pair);
		pair_delete(pair);
	}
}

static void a_long_send_finds_no_receive(void **state)
{
	struct pair *pair = new_long_sender();
	struct pair_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_SEND_WITH_IMM, .flags = IBV_SEND_SIGNALED, .bytes = LONG_BYTES, .imm = 0x1234,
	};

	pattern_fill(pair->side[0].memory, LONG_BYTES, 7);
	post_wr(pair, 0, wr);
	assert_true(deliver(1));
	assert_int_equal(pair->side[1].node->ca.counters.send_rnr_err, 1);
	assert_int_equal(pair_recv(pair, 1, 5, 0, LONG_BYTES), 0);
	end_as_packets(pair);
	pair_delete(pair);
}

/* The receive is too short for the second part. */
static void a_long_send_is_too_long(void **state)
{
	struct pair *pair = new_long_sender();
	struct pair_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = LONG_BYTES };

	assert_int_equal(pair_recv(pair, 1, 5, 0, DIRECT_SLICE + 1), 0);
	post_wr(pair, 0, wr);
	while (deliver(1))
		;
	pair_run(pair);
	expect_received(pair, 1, 5, IBV_WC_LOC_LEN_ERR);
	expect_sent(pair, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(channel.pulls, 1);
	pair_delete(pair);
}

static void an_error_ends_a_long_send(void **state)
{
	for (int side = 0; side < 2; side++) {
		struct pair *pair = new_long_sender();

		post_long_send(pair);
		assert_true(deliver(1));
		qp_error(pair->side[side].qp, pair->sim->now, -1);
		if (side == 0)
			expect_sent(pair, 0, 1, IBV_WC_WR_FLUSH_ERR);
		else
			expect_received(pair, 1, 5, IBV_WC_WR_FLUSH_ERR);
		pair_delete(pair);
	}
}

/* ---- what is taken back: a direct message that found no receive, and all behind it ---- */

static struct pair *new_pair_without_receives(void)
{
	struct pair *pair = pair_new(&(struct pair_config){ .rnr_retry = 7, .min_rnr_timer = 1 });

	open_channel(pair, 1);
	channel.refuses = 0;
	return pair;
}

static void post_one_local(struct pair *pair)
{
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 9000 });
}

/* The message is refused; then there is a receive. */
static void refuse_once(struct pair *pair)
{
	assert_true(deliver(1));
	assert_int_equal(pair_recv(pair, 1, 2, 16384, 9000), 0);
	pair_run(pair);
	while (deliver(1) || collect(0))
		pair_run(pair);
	assert_int_equal(pair->side[0].node->ca.counters.rcvd_rnr_err, 1);
	expect_received(pair, 1, 2, IBV_WC_SUCCESS);
}

static void post_local(struct pair *pair, struct send_wqe fields)
{
	struct qp *qp = pair->side[0].qp;
	struct send_wqe *wqe = qp_send_slot(qp);

	assert_non_null(wqe);
	fields.flags = IBV_SEND_SIGNALED;
	*wqe = fields;
	assert_int_equal(qp_send_written(qp, wqe), 0);
	qp_send_ring(qp, pair->sim->now);
	sim_pump(pair->sim);
}

/* A window cannot be invalidated twice. */
static void local_work_is_done_once(void **state)
{
	struct pair *pair = new_pair_without_receives();
	struct mr *window;
	uint32_t key;

	assert_int_equal(mw_create(pair->side[0].pd, IBV_MW_TYPE_2, &window), 0);
	key = window->key ^ 1;
	post_local(pair, (struct send_wqe){
		.wr_id = 7, .opcode = IBV_WR_BIND_MW, .bind_mw_rkey = window->key, .bind_new_rkey = key,
		.bind_mr_lkey = pair->side[0].mr->key, .bind_access = IBV_ACCESS_REMOTE_WRITE,
		.bind_addr = PAIR_IOVA, .bind_length = 64 });
	expect_sent(pair, 0, 7, IBV_WC_SUCCESS);
	post_one_local(pair);
	post_local(pair, (struct send_wqe){ .wr_id = 8, .opcode = IBV_WR_LOCAL_INV, .imm = key });
	refuse_once(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 8, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_RTS);
	assert_int_equal(pair->side[0].qp->messages_sent, 1);
	pair_delete(pair);
}

/* IBA 10.3.1.5: it was begun, so the queue is not drained before it is finished. */
static void draining_sends_again(void **state)
{
	struct pair *pair = new_pair_without_receives();
	struct qp *qp = pair->side[0].qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	unsigned before = pair->side[0].node->events;

	post_one_local(pair);
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	refuse_once(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(qp->attr.sq_draining, 0);
	assert_int_equal(pair->side[0].node->events, before + 1);
	pair_delete(pair);
}

static unsigned channel_has_room(void *owner, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	(void)owner;
	(void)dev;
	(void)r;
	(void)av;
	return channel.tail[1] - channel.head[1] < RECORDS;
}

/* Messages take the room that a packet behind them would need, which nobody would miss: UC's sender hears nothing. */
static void no_packet_is_made_for_a_full_link(void **state)
{
	enum { SENDS = 2 * RECORDS, TAKEN = 10 };
	struct pair *pair = pair_new(&(struct pair_config){ .type = IBV_QPT_UC, .sends = SENDS });
	struct ca *ca = &pair->side[0].node->ca;
	struct ca_ops ops = *ca->ops;
	struct burst burst;

	open_channel(pair, 1);
	channel.refuses = 0;
	ops.space = channel_has_room;
	ca->ops = &ops;
	for (unsigned i = 0; i < SENDS; i++)
		post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_SEND, .bytes = 8 });
	assert_int_equal(channel.sends, RECORDS);
	channel.head[1] += TAKEN;
	ca_unblock(ca);
	assert_int_equal(ca_output(ca, pair->sim->now, &burst), 0);
	assert_int_equal(channel.sends, RECORDS + TAKEN);
	assert_int_equal(ca->counters.sent_pkts, 0);
	pair_delete(pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_message_passes_packets_of_its_burst),
		cmocka_unit_test(every_run_ends_well),
		cmocka_unit_test(a_send_needs_no_packet),
		cmocka_unit_test(the_short_way_is_the_long_one),
		cmocka_unit_test(joined_pieces_are_not_too_many),
		cmocka_unit_test(a_short_send_waits_for_what_all_wait_for),
		cmocka_unit_test(a_short_send_passes_no_repeat),
		cmocka_unit_test(a_send_that_was_sent_at_once_can_be_repeated),
		cmocka_unit_test(an_unreliable_send_outlives_its_buffer),
		cmocka_unit_test(solicited_messages_wake),
		cmocka_unit_test(an_answer_acknowledges),
		cmocka_unit_test(an_acknowledgement_may_wait_for_a_poll),
		cmocka_unit_test(an_error_does_not_flush_what_was_acknowledged),
		cmocka_unit_test(a_reset_forgets_what_was_acknowledged),
		cmocka_unit_test(a_timer_settles_first),
		cmocka_unit_test(a_write_settles_first),
		cmocka_unit_test(a_full_window_settles_first),
		cmocka_unit_test(an_armed_queue_does_not_wait),
		cmocka_unit_test(refusals_are_the_standards),
		cmocka_unit_test(silence_ends_in_a_status),
		cmocka_unit_test(chosen_acknowledgements_are_packets),
		cmocka_unit_test(a_long_request_takes_turns),
		cmocka_unit_test(a_long_request_may_end_as_packets),
		cmocka_unit_test(a_region_that_goes_refuses_the_rest),
		cmocka_unit_test(a_long_request_needs_its_own_region),
		cmocka_unit_test(an_error_ends_a_long_request),
		cmocka_unit_test(draining_waits_for_a_long_request),
		cmocka_unit_test(a_long_send_crosses_in_parts),
		cmocka_unit_test(a_long_send_may_end_as_packets),
		cmocka_unit_test(a_long_send_finds_no_receive),
		cmocka_unit_test(a_long_send_is_too_long),
		cmocka_unit_test(an_error_ends_a_long_send),
		cmocka_unit_test(local_work_is_done_once),
		cmocka_unit_test(draining_sends_again),
		cmocka_unit_test(no_packet_is_made_for_a_full_link),
	};

	if (argc > 1)
		runs = (unsigned)strtoul(argv[1], NULL, 0);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
