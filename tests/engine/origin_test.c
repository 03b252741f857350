/* Whose packets and messages a QP takes: two QPs are connected, and a third node, which knows all their numbers, speaks in the
 * name of one of them. */
#include "engine_test.h"

#include "verbs/direct.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#include <endian.h>

enum { THIRD = 2, FORGED_TAG = 9, QKEY = 0x1234, OTHER_PKEY = 0x8123 };

static struct pair *start(enum ibv_qp_type type, enum packet_form form)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 3, .form = form, .nodes = 3 }, .type = type, .psn = { 0xffffff, 9 },
	});

	pattern_fill(pair->side[0].memory, 4096, 1);
	return pair;
}

static uint64_t refused(const struct pair *pair, int side)
{
	return pair->side[side].node->ca.counters.dropped_source;
}

/* A packet to the QP from its peer's address, as only the wire's bytes can tell. */
static void inject(struct pair *pair, int from, int side, struct qp *to, struct packet p)
{
	static uint8_t data[64], frame[PACKET_MAX_BYTES];
	struct iovec payload = { data, p.payload_bytes };
	const struct ca_device *us = pair->side[side].node->dev, *peer = pair->side[!side].node->dev;

	pattern_fill(data, sizeof(data), FORGED_TAG);
	p.form = us->protocol->form;
	p.pkey = p.pkey ? p.pkey : 0xffff;
	p.dest_qpn = to->qpn;
	p.path = to->path;
	p.path.slid = peer->lid;
	p.path.dlid = us->lid;
	p.path.has_grh = device_has(us, DEVICE_GRH_REQUIRED);
	memcpy(p.path.sgid, peer->gid[0].raw, 16);
	memcpy(p.path.dgid, us->gid[0].raw, 16);
	p.path.is_ipv4 = p.path.has_grh;
	p.payload = &payload;
	p.payload_iovs = 1;
	sim_inject(pair->sim, from, side, frame, packet_build(&p, frame, sizeof(frame)));
	pair_run(pair);
}

static void third_party_speaks_into(enum ibv_qp_type type, uint8_t send_only, enum packet_form form)
{
	struct pair *pair = start(type, form);
	struct qp *to = pair->side[1].target;
	struct packet p = { .opcode = send_only, .psn = 0xffffff, .payload_bytes = 32, .ack_requested = true,
			    .xrceth = { pair->side[1].srq ? pair->side[1].srq->srqn : 0 } };

	pair_recv(pair, 1, 7, 0, 100);
	for (int from = 1; from <= THIRD; from++)
		inject(pair, from, 1, to, p);
	assert_int_equal(refused(pair, 1), 2);
	expect_nothing(pair, 1);
	assert_int_equal(pair->side[1].memory[0], 0);
	/* what the peer says then is heard, and nobody else after it */
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 32 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[1].memory, 32, 1));
	pair_recv(pair, 1, 8, 0, 100);
	p.psn = 0;
	inject(pair, THIRD, 1, to, p);
	expect_nothing(pair, 1);
	assert_int_equal(refused(pair, 1), 3);
	pair_delete(pair);
}

static void third_party_is_not_heard(void **state)
{
	third_party_speaks_into(IBV_QPT_RC, OPCODE_RC_SEND_ONLY, PACKET_IB);
	third_party_speaks_into(IBV_QPT_RC, OPCODE_RC_SEND_ONLY, PACKET_ROCE);
	third_party_speaks_into(IBV_QPT_UC, OPCODE_UC_SEND_ONLY, PACKET_IB);
	third_party_speaks_into(IBV_QPT_XRC_SEND, OPCODE_XRC_SEND_ONLY, PACKET_IB);
}

/* A forged NAK would end the connection. */
static void third_party_refuses_nothing(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_IB);
	struct qp *qp = pair->side[0].qp;
	struct packet nak = { .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = 0xffffff,
			      .aeth = { aeth_syndrome(AETH_NAK, NAK_REMOTE_OPERATIONAL), 0 } };

	pair_recv(pair, 1, 7, 0, 100);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 32 });
	sim_pump(pair->sim);
	inject(pair, THIRD, 0, qp, nak);
	assert_int_equal(refused(pair, 0), 1);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* Connected anew to another, it takes nothing more of the first. */
static void former_peer_is_not_heard(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_IB);
	struct qp *qp = pair->side[1].qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct packet p = { .opcode = OPCODE_RC_SEND_ONLY, .psn = 0xffffff, .payload_bytes = 32 };

	pair_recv(pair, 1, 7, 0, 100);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 32 });
	pair_run(pair);
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
	assert_int_equal(pair_connect(pair, 1, qp, pair->side[0].qp, IBV_QPS_RTS), 0);
	qp->attr.dest_qp_num = (THIRD + 1) << 20 | 77;	/* as if it had been connected to the third node, with the same LID */
	pair_recv(pair, 1, 8, 0, 100);
	inject(pair, 0, 1, qp, p);
	expect_nothing(pair, 1);
	assert_int_equal(refused(pair, 1), 1);
	pair_delete(pair);
}

static void forged_datagram_is_dropped(void **state)
{
	struct pair *pair = start(IBV_QPT_UD, PACKET_ROCE);
	struct packet p = { .opcode = OPCODE_UD_SEND_ONLY, .psn = 1, .payload_bytes = 32,
			    .deth = { QKEY, pair->side[0].qp->qpn } };

	pair_recv(pair, 1, 7, 0, 4096);
	inject(pair, THIRD, 1, pair->side[1].qp, p);
	expect_nothing(pair, 1);
	assert_int_equal(refused(pair, 1), 1);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 32 });
	pair_run(pair);
	assert_int_equal(expect_received(pair, 1, 7, IBV_WC_SUCCESS).src_qp, pair->side[0].qp->qpn);
	/* nor after one of the real sender, nor in the name of another QP of its own than it has */
	pair_recv(pair, 1, 8, 0, 4096);
	inject(pair, THIRD, 1, pair->side[1].qp, p);
	p.deth.src_qpn = (THIRD + 1) << 20 | 5;
	inject(pair, 0, 1, pair->side[1].qp, p);
	expect_nothing(pair, 1);
	assert_int_equal(refused(pair, 1), 3);
	pair_delete(pair);
}

/* ---- keys ---- */

static unsigned bad_keys;

static void count_bad_key(void *owner, const struct qp *qp, const struct packet *p, bool is_qkey)
{
	bad_keys++;
}

/* Two packets with a bad key in the name of the peer: the third's, of which the host hears nothing, and the peer's own. */
static void names_with_a_bad_key(enum ibv_qp_type type, struct packet p)
{
	struct pair *pair = start(type, PACKET_IB);
	struct ca *ca = &pair->side[1].node->ca;
	const struct ca_ops *usual = ca->ops;
	struct ca_ops ops = *usual;

	ops.bad_key = count_bad_key;
	ca->ops = &ops;
	bad_keys = 0;
	p.deth.src_qpn = pair->side[0].qp->qpn;
	pair_recv(pair, 1, 7, 0, 4096);
	inject(pair, THIRD, 1, pair->side[1].qp, p);
	assert_int_equal(bad_keys, 0);
	assert_int_equal(refused(pair, 1), 1);
	inject(pair, 0, 1, pair->side[1].qp, p);
	assert_int_equal(bad_keys, 1);
	assert_int_equal(refused(pair, 1), 1);
	expect_nothing(pair, 1);
	ca->ops = usual;
	pair_delete(pair);
}

static void third_party_gives_nobody_a_bad_key(void **state)
{
	struct packet p = { .opcode = OPCODE_UD_SEND_ONLY, .psn = 0xffffff, .payload_bytes = 32, .deth = { QKEY + 1, 0 } };

	names_with_a_bad_key(IBV_QPT_UD, p);
	p.deth.qkey = QKEY;
	p.pkey = OTHER_PKEY;
	names_with_a_bad_key(IBV_QPT_UD, p);
	p.opcode = OPCODE_UC_SEND_ONLY;
	names_with_a_bad_key(IBV_QPT_UC, p);
	p.opcode = OPCODE_RC_SEND_ONLY;
	names_with_a_bad_key(IBV_QPT_RC, p);
}

/* A packet of another LID than the peer's is not the peer's, whatever its key. */
static void bad_key_from_elsewhere_is_nobodys(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_IB);
	struct ca *ca = &pair->side[1].node->ca;
	const struct ca_ops *usual = ca->ops;
	struct ca_ops ops = *usual;

	ops.bad_key = count_bad_key;
	ca->ops = &ops;
	bad_keys = 0;
	pair->side[1].qp->path.dlid++;
	inject(pair, 0, 1, pair->side[1].qp, (struct packet){ .opcode = OPCODE_RC_SEND_ONLY, .psn = 0xffffff, .payload_bytes = 32,
							      .pkey = OTHER_PKEY });
	assert_int_equal(bad_keys, 0);
	ca->ops = usual;
	pair_delete(pair);
}

static void forged_datagram_to_a_group_is_dropped(void **state)
{
	static const uint8_t group[16] = { 0xff, 0x0e, [15] = 1 };
	struct pair *pair = start(IBV_QPT_UD, PACKET_ROCE);
	struct packet p = { .form = PACKET_ROCE, .opcode = OPCODE_UD_SEND_ONLY, .pkey = 0xffff, .dest_qpn = 0xffffff,
			    .deth = { QKEY, pair->side[0].qp->qpn }, .path = { .has_grh = true } };
	struct sim_node *node = pair->side[1].node;

	memcpy(p.path.dgid, group, 16);
	p.path.sgid[0] = 0xfd;
	assert_int_equal(mcast_attach(pair->side[1].qp, group, 0), 0);
	pair_recv(pair, 1, 7, 0, 4096);
	ca_input(&node->ca, node->dev, pair->sim->now, THIRD + 1, &p);
	expect_nothing(pair, 1);
	assert_int_equal(refused(pair, 1), 1);
	pair_delete(pair);
}

/* ---- messages, which come over a channel ---- */

static int peers_channel, another_channel;

static bool connect_to_peer(void *owner, struct qp *qp)
{
	(void)owner;
	qp->direct_path.channel = &peers_channel;
	return true;
}

static void ignore_qp(void *owner, struct qp *qp)
{
	(void)owner;
	(void)qp;
}

static void publish(void *owner, struct qp *qp, psn_t received)
{
	(void)received;
	ignore_qp(owner, qp);
}

static const struct direct_ops direct = { .connect = connect_to_peer, .unpublish_qp = ignore_qp, .publish_qp = ignore_qp,
					  .publish = publish };

static void message_of_another_is_not_taken(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_IB);
	struct ca *ca = &pair->side[1].node->ca;
	uint8_t data[16] = { 1 };
	struct iovec iov = { data, sizeof(data) };
	struct direct_message m = { .opcode = OPCODE_RC_SEND_ONLY, .dest_qpn = pair->side[1].qp->qpn,
				    .src_qpn = pair->side[0].qp->qpn, .psn = 0xffffff, .bytes = sizeof(data), .iov = &iov,
				    .iovs = 1 };

	ca->direct = &direct;
	pair_recv(pair, 1, 7, 0, 100);
	/* its channel is not the peer's; it is, but another QP of that process speaks */
	ca_message(ca, pair->sim->now, &another_channel, &m);
	m.src_qpn++;
	ca_message(ca, pair->sim->now, &peers_channel, &m);
	expect_nothing(pair, 1);
	assert_int_equal(refused(pair, 1), 2);
	assert_int_equal(pair->side[1].memory[0], 0);
	m.src_qpn--;
	ca_message(ca, pair->sim->now, &peers_channel, &m);
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	ca->direct = NULL;
	pair_delete(pair);
}

/* A message that comes before its turn is refused: its bytes do not stay where they are. */
static void message_before_its_turn_is_refused(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_IB);
	struct ca *ca = &pair->side[1].node->ca;
	struct direct_message m = { .opcode = OPCODE_RC_SEND_ONLY, .dest_qpn = pair->side[1].qp->qpn,
				    .src_qpn = pair->side[0].qp->qpn, .psn = 3 };

	ca->direct = &direct;
	pair_recv(pair, 1, 7, 0, 100);
	ca_message(ca, pair->sim->now, &peers_channel, &m);
	expect_nothing(pair, 1);
	assert_int_equal(ca->counters.out_of_seq_request, 1);
	m.psn = 0xffffff;
	ca_message(ca, pair->sim->now, &peers_channel, &m);
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	ca->direct = NULL;
	pair_delete(pair);
}

static bool give_short(struct ca *ca, const struct pair *pair, const void *channel, uint32_t src_qpn)
{
	static const uint8_t data[16] = { 1 };

	return ca_short_message(ca, channel, pair->side[1].qp->qpn, src_qpn, 0, 0, (struct direct_promise){ 0 }, data,
				sizeof(data), false);
}

static void short_message_of_another_is_not_taken(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_IB);
	struct ca *ca = &pair->side[1].node->ca;
	uint32_t peer = pair->side[0].qp->qpn;

	ca->direct = &direct;
	pair_recv(pair, 1, 6, 0, 100);
	pair_recv(pair, 1, 7, 0, 100);
	/* the first message finds the path */
	ca_message(ca, pair->sim->now, &peers_channel, &(struct direct_message){
		.opcode = OPCODE_RC_SEND_ONLY, .dest_qpn = pair->side[1].qp->qpn, .src_qpn = peer, .psn = 0xffffff });
	expect_received(pair, 1, 6, IBV_WC_SUCCESS);
	assert_false(give_short(ca, pair, &another_channel, peer));
	assert_false(give_short(ca, pair, &peers_channel, peer + 1));
	expect_nothing(pair, 1);
	assert_int_equal(pair->side[1].memory[0], 0);
	assert_true(give_short(ca, pair, &peers_channel, peer));
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	ca->direct = NULL;
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(third_party_is_not_heard),
		cmocka_unit_test(third_party_refuses_nothing),
		cmocka_unit_test(former_peer_is_not_heard),
		cmocka_unit_test(forged_datagram_is_dropped),
		cmocka_unit_test(third_party_gives_nobody_a_bad_key),
		cmocka_unit_test(bad_key_from_elsewhere_is_nobodys),
		cmocka_unit_test(forged_datagram_to_a_group_is_dropped),
		cmocka_unit_test(message_of_another_is_not_taken),
		cmocka_unit_test(message_before_its_turn_is_refused),
		cmocka_unit_test(short_message_of_another_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
