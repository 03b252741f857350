/* More than two: queue pairs between several nodes, on one node, atomics of several clients, groups, and a storage exchange
 * of three steps. SAN-20, SAN-23, SAN-24, SAN-27, SAN-28, SAN-34, SAN-43. */
#include "engine_test.h"

#include <errno.h>

enum { NODES = 4, BYTES = 8192, QKEY = 0x4321 };

struct node {
	struct sim_node *sim;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	uint8_t memory[BYTES];
};

struct net {
	struct sim *sim;
	struct node node[NODES];
};

static int open_net(void **state)
{
	struct net *net = calloc(1, sizeof(*net));
	struct sim_config config = {
		.seed = 3, .nodes = NODES, .form = PACKET_IB, .mtu = IBV_MTU_1024, .link = { .delay_ns = 1000 },
	};

	net->sim = sim_new(&config);
	for (int i = 0; i < NODES; i++) {
		struct node *n = &net->node[i];

		n->sim = &net->sim->node[i];
		assert_int_equal(pd_create(&n->sim->ca, n->sim->dev, &n->pd), 0);
		assert_int_equal(cq_create(&n->sim->ca, n->sim->dev, 256, &n->cq), 0);
		assert_int_equal(mr_create(n->pd, n->memory, BYTES, PAIR_IOVA, PAIR_ACCESS, &n->mr), 0);
	}
	*state = net;
	return 0;
}

static int close_net(void **state)
{
	struct net *net = *state;

	sim_delete(net->sim);
	free(net);
	return 0;
}

static struct qp *new_qp(struct node *n, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = type, .cap = { 32, 32, 2, 2, 0 }, .sq_sig_all = 1 };
	struct qp *qp;

	assert_int_equal(qp_create(&n->sim->ca, n->sim->dev, &init, n->pd, n->cq, n->cq, NULL, NULL, &qp), 0);
	return qp;
}

static void move(struct net *net, struct qp *qp, struct node *peer, uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer_qpn,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.ah_attr = { .dlid = peer ? peer->sim->dev->lid : 0, .port_num = 1 },
		.max_rd_atomic = 4, .max_dest_rd_atomic = 4, .timeout = 8, .retry_cnt = 3, .rnr_retry = 7, .min_rnr_timer = 1,
	};
	bool is_ud = qp->type == IBV_QPT_UD, is_rc = qp->type == IBV_QPT_RC;
	int mask;

	assert_int_equal(qp_modify(qp, net->sim->now, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), 0);
	attr.qp_state = IBV_QPS_RTR;
	mask = IBV_QP_STATE | (is_ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	mask |= is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
	assert_int_equal(qp_modify(qp, net->sim->now, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(qp, net->sim->now, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (!is_rc ? 0 : IBV_QP_TIMEOUT |
				   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)), 0);
}

static void connect_both(struct net *net, struct node *a, struct qp *qa, struct node *b, struct qp *qb)
{
	move(net, qa, b, qb->qpn);
	move(net, qb, a, qa->qpn);
}

static void receive_at(struct net *net, struct node *n, struct qp *qp, uint64_t wr_id, uint32_t at, uint32_t bytes)
{
	struct ibv_sge sge = { PAIR_IOVA + at, bytes, n->mr->key };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;

	assert_int_equal(qp_post_recv(qp, net->sim->now, &wr, &bad), 0);
}

/* With `remote` NULL a send. */
static struct ibv_send_wr request(enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge *sge, const struct node *remote,
				  uint32_t at)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = opcode, .sg_list = sge, .num_sge = 1 };

	if (remote) {
		wr.wr.rdma.remote_addr = PAIR_IOVA + at;
		wr.wr.rdma.rkey = remote->mr->key;
	}
	return wr;
}

static void post(struct net *net, struct qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(qp_post_send(qp, net->sim->now, wr, &bad), 0);
	sim_pump(net->sim);
}

static void run(struct net *net)
{
	sim_run(net->sim, net->sim->now + 10 * WTIME_S);
}

static struct cqe expect(struct node *n, uint64_t wr_id)
{
	struct cqe cqe;

	assert_true(cq_poll(n->cq, &cqe));
	assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	assert_int_equal(cqe.wr_id, wr_id);
	return cqe;
}

static void expect_none(struct node *n)
{
	struct cqe cqe;

	assert_false(cq_poll(n->cq, &cqe));
}

static void say(struct net *net, struct node *n, struct qp *qp, const char *text)
{
	struct ibv_sge sge = { PAIR_IOVA, (uint32_t)strlen(text) + 1, n->mr->key };
	struct ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge, NULL, 0);

	memcpy(n->memory, text, sge.length);
	post(net, qp, &wr);
	run(net);
	expect(n, 1);
}

/* SAN-28: the worked association of three nodes: 4 with 2, 7 with 5, 6 with 9; numbers are counted per node here. */
static void three_nodes_in_association(void **state)
{
	struct net *net = *state;
	static const struct { int node[2]; uint32_t number[2]; const char *text; } row[] = {
		{ { 0, 1 }, { 4, 2 }, "four to two" },
		{ { 0, 2 }, { 7, 5 }, "seven to five" },
		{ { 1, 2 }, { 6, 9 }, "six to nine" },
	};
	struct qp *qp[3][2];

	for (int i = 0; i < 3; i++)
		for (int side = 0; side < 2; side++) {
			net->sim->node[row[i].node[side]].next_qpn = row[i].number[side];
			qp[i][side] = new_qp(&net->node[row[i].node[side]], IBV_QPT_RC);
			assert_int_equal(qp[i][side]->qpn & 0xfffff, row[i].number[side]);
		}
	for (int i = 0; i < 3; i++)
		connect_both(net, &net->node[row[i].node[0]], qp[i][0], &net->node[row[i].node[1]], qp[i][1]);
	for (int i = 0; i < 3; i++) {
		struct node *to = &net->node[row[i].node[1]];
		struct cqe cqe;

		receive_at(net, to, qp[i][1], 70 + i, 4096, 100);
		say(net, &net->node[row[i].node[0]], qp[i][0], row[i].text);
		cqe = expect(to, 70 + i);
		assert_int_equal(cqe.wqn, qp[i][1]->qpn);
		assert_string_equal((char *)to->memory + 4096, row[i].text);
	}
	for (int i = 0; i < NODES; i++)
		expect_none(&net->node[i]);
}

/* SAN-27: a connected queue pair hears its one peer only, and cannot be given another. */
static void a_second_peer_is_not_heard(void **state)
{
	struct net *net = *state;
	struct node *n = net->node;
	struct qp *a = new_qp(&n[0], IBV_QPT_RC), *b = new_qp(&n[1], IBV_QPT_RC), *stranger = new_qp(&n[2], IBV_QPT_RC);
	struct ibv_sge sge = { PAIR_IOVA, 10, n[2].mr->key };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 9, &sge, &n[1], 100);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .dest_qp_num = stranger->qpn };
	struct cqe cqe;

	connect_both(net, &n[0], a, &n[1], b);
	move(net, stranger, &n[1], b->qpn);
	memset(n[2].memory, 7, 10);
	post(net, stranger, &wr);
	run(net);
	assert_true(cq_poll(n[2].cq, &cqe));
	assert_int_equal(cqe.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(n[1].memory[100], 0);
	assert_int_equal(qp_modify(b, net->sim->now, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN), -EINVAL);
	receive_at(net, &n[1], b, 70, 200, 100);
	say(net, &n[0], a, "still here");
	expect(&n[1], 70);
}

/* SAN-27, SAN-43: two queue pairs of one adapter, and one with itself. */
static void loopback(void **state)
{
	struct net *net = *state;
	struct node *n = net->node;
	struct qp *a = new_qp(n, IBV_QPT_RC), *b = new_qp(n, IBV_QPT_RC), *self = new_qp(n, IBV_QPT_RC);

	connect_both(net, n, a, n, b);
	move(net, self, n, self->qpn);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = { PAIR_IOVA, 12, n->mr->key };
		struct ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge, NULL, 0);

		receive_at(net, n, i ? self : b, 70, 4096, 100);
		strcpy((char *)n->memory, i ? "to myself" : "to a sibling");
		post(net, i ? self : a, &wr);
		run(net);
		expect(n, 70);
		expect(n, 1);
		assert_memory_equal(n->memory + 4096, n->memory, 9);
	}
	expect_none(n);
}

/* SAN-27: a full mesh of N nodes with P processes each takes P * P * (N - 1) queue pairs a node: 8 for 3 and 2. */
static void full_mesh(void **state)
{
	struct net *net = *state;
	struct qp *qp[3][8];
	unsigned used[3] = { 0 };

	for (int a = 0; a < 3; a++)
		for (int b = a + 1; b < 3; b++)
			for (int processes = 0; processes < 2 * 2; processes++) {
				struct qp **qa = &qp[a][used[a]++], **qb = &qp[b][used[b]++];

				*qa = new_qp(&net->node[a], IBV_QPT_RC);
				*qb = new_qp(&net->node[b], IBV_QPT_RC);
				connect_both(net, &net->node[a], *qa, &net->node[b], *qb);
			}
	for (int i = 0; i < 3; i++)
		assert_int_equal(used[i], 8);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 8; k++) {
			struct node *peer = &net->node[qp[i][k]->path.dlid - 1];
			struct qp *to = qp_find(&peer->sim->ca, qp[i][k]->attr.dest_qp_num);

			assert_non_null(to);
			receive_at(net, peer, to, 80, 4096, 100);
			say(net, &net->node[i], qp[i][k], "mesh");
			assert_int_equal(expect(peer, 80).wqn, to->qpn);
		}
}

/* SAN-23: three clients increment one word a hundred times each, then take turns at a lock. */
static void atomics_of_several_clients(void **state)
{
	struct net *net = *state;
	struct node *target = &net->node[3];
	struct qp *qp[3];
	uint64_t word, locked = 0;

	for (int i = 0; i < 3; i++) {
		struct qp *peer = new_qp(target, IBV_QPT_RC);

		qp[i] = new_qp(&net->node[i], IBV_QPT_RC);
		connect_both(net, &net->node[i], qp[i], target, peer);
	}
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 3; i++) {
			struct ibv_sge sge = { PAIR_IOVA, 8, net->node[i].mr->key };
			struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, NULL, 0), *bad;

			wr.wr.atomic.remote_addr = PAIR_IOVA + 64;
			wr.wr.atomic.rkey = target->mr->key;
			wr.wr.atomic.compare_add = 1;
			assert_int_equal(qp_post_send(qp[i], net->sim->now, &wr, &bad), 0);
		}
		run(net);
		for (int i = 0; i < 3; i++)
			expect(&net->node[i], 1);
	}
	memcpy(&word, target->memory + 64, 8);
	assert_int_equal(word, 300);
	for (int i = 0; i < 3; i++) {
		struct ibv_sge sge = { PAIR_IOVA, 8, net->node[i].mr->key };
		struct ibv_send_wr wr = request(IBV_WR_ATOMIC_CMP_AND_SWP, 2, &sge, NULL, 0), *bad;

		wr.wr.atomic.remote_addr = PAIR_IOVA + 128;
		wr.wr.atomic.rkey = target->mr->key;
		wr.wr.atomic.swap = 10 + (unsigned)i;
		assert_int_equal(qp_post_send(qp[i], net->sim->now, &wr, &bad), 0);
	}
	run(net);
	memcpy(&word, target->memory + 128, 8);
	for (int i = 0; i < 3; i++) {
		uint64_t seen;

		expect(&net->node[i], 2);
		memcpy(&seen, net->node[i].memory, 8);
		locked += seen == 0;
		assert_true(seen == (word == 10 + (unsigned)i ? 0 : word));
	}
	assert_int_equal(locked, 1);
	expect_none(target);
}

static struct qp *datagram_qp(struct net *net, struct node *n)
{
	struct qp *qp = new_qp(n, IBV_QPT_UD);

	move(net, qp, NULL, 0);
	return qp;
}

static void send_datagram(struct net *net, struct node *n, struct qp *qp, const struct av *av, uint32_t dest_qpn)
{
	struct ah ah = { .pd = n->pd, .av = *av };
	struct ibv_sge sge = { PAIR_IOVA, 8, n->mr->key };
	struct ibv_send_wr wr = request(IBV_WR_SEND, 5, &sge, NULL, 0);

	wr.wr.ud.ah = &ah.ibv;
	wr.wr.ud.remote_qpn = dest_qpn;
	wr.wr.ud.remote_qkey = QKEY;
	memcpy(n->memory, "datagram", 8);
	post(net, qp, &wr);
}

/* SAN-24: three ports joined, one send, three receives. */
static void one_send_reaches_a_group(void **state)
{
	struct net *net = *state;
	static const uint8_t group[16] = { 0xff, 0x12, 0x40, 0x1b, [15] = 9 };
	struct av av = { .dlid = 0xc005, .port_num = 1, .is_global = true, .hop_limit = 1 };
	struct qp *sender = datagram_qp(net, &net->node[3]);

	memcpy(av.dgid, group, 16);
	for (int i = 0; i < 3; i++) {
		struct qp *member = datagram_qp(net, &net->node[i]);

		assert_int_equal(mcast_attach(member, group, 0xc005), 0);
		receive_at(net, &net->node[i], member, 60, 1024, 100);
	}
	send_datagram(net, &net->node[3], sender, &av, 0xffffff);
	run(net);
	expect(&net->node[3], 5);
	for (int i = 0; i < 3; i++) {
		struct cqe cqe = expect(&net->node[i], 60);

		assert_int_equal(cqe.byte_len, 48);
		assert_int_equal(cqe.src_qp, sender->qpn);
		assert_memory_equal(net->node[i].memory + 1024 + 40, "datagram", 8);
		expect_none(&net->node[i]);
	}
}

/* SAN-20, SAN-34: write to a disk: the host sends a command, the disk reads the data, the disk sends its answer. The reading
 * takes no receive of the host. */
static void a_disk_write_in_three_steps(void **state)
{
	struct net *net = *state;
	struct node *host = &net->node[0], *disk = &net->node[1];
	struct qp *h = new_qp(host, IBV_QPT_RC), *d = new_qp(disk, IBV_QPT_RC);
	struct { uint64_t address; uint32_t key, bytes; } command = { PAIR_IOVA + 4096, host->mr->key, 3000 };
	struct ibv_sge sge = { PAIR_IOVA, sizeof(command), host->mr->key };
	struct ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge, NULL, 0);
	uint32_t receives;

	connect_both(net, host, h, disk, d);
	pattern_fill(host->memory + 4096, 3000, 1);
	receive_at(net, disk, d, 10, 0, 64);
	receive_at(net, host, h, 20, 64, 64);
	memcpy(host->memory, &command, sizeof(command));
	post(net, h, &wr);
	run(net);
	expect(host, 1);
	expect(disk, 10);
	receives = wq_pending(&h->rq.engine);
	memset(&command, 0, sizeof(command));
	memcpy(&command, disk->memory, sizeof(command));
	sge = (struct ibv_sge){ PAIR_IOVA + 4096, command.bytes, disk->mr->key };
	wr = request(IBV_WR_RDMA_READ, 11, &sge, NULL, 0);
	wr.wr.rdma.remote_addr = command.address;
	wr.wr.rdma.rkey = command.key;
	post(net, d, &wr);
	run(net);
	expect(disk, 11);
	assert_true(pattern_holds(disk->memory + 4096, 3000, 1));
	assert_int_equal(wq_pending(&h->rq.engine), receives);
	expect_none(host);
	say(net, disk, d, "written");
	expect(host, 20);
	assert_string_equal((char *)host->memory + 64, "written");
}

/* SAN-42: a control channel and two data channels between two nodes. What a remote refuses of one is reported there, and the
 * others go on; a channel without acknowledgements reports nothing. */
static void control_and_data_channels(void **state)
{
	struct net *net = *state;
	struct node *a = &net->node[0], *b = &net->node[1];
	struct qp *control = new_qp(a, IBV_QPT_RC), *data[2] = { new_qp(a, IBV_QPT_RC), new_qp(a, IBV_QPT_RC) };
	struct qp *quiet = new_qp(a, IBV_QPT_UC), *ends[4];
	struct qp *const channels[] = { control, data[0], data[1], quiet };
	struct ibv_sge sge = { PAIR_IOVA + 1024, 64, a->mr->key };
	struct ibv_send_wr wr;
	struct cqe cqe;

	for (int i = 0; i < 4; i++) {
		ends[i] = new_qp(b, channels[i]->type);
		connect_both(net, a, channels[i], b, ends[i]);
	}
	wr = request(IBV_WR_RDMA_WRITE, 7, &sge, b, 2048);
	wr.wr.rdma.rkey ^= 1;
	post(net, quiet, &wr);
	run(net);
	expect(a, 7);
	wr.wr_id = 8;
	post(net, data[0], &wr);
	run(net);
	assert_true(cq_poll(a->cq, &cqe));
	assert_int_equal(cqe.wr_id, 8);
	assert_int_equal(cqe.status, IBV_WC_REM_ACCESS_ERR);
	expect_none(a);
	assert_int_equal(data[0]->state, IBV_QPS_ERR);
	memset(a->memory + 1024, 0x5a, 64);
	wr = request(IBV_WR_RDMA_WRITE, 9, &sge, b, 2048);
	post(net, data[1], &wr);
	run(net);
	expect(a, 9);
	assert_memory_equal(b->memory + 2048, a->memory + 1024, 64);
	receive_at(net, b, ends[0], 10, 4096, 64);
	say(net, a, control, "data 0 has an error");
	expect(b, 10);
	assert_string_equal((char *)b->memory + 4096, "data 0 has an error");
}

#define NET(test) cmocka_unit_test_setup_teardown(test, open_net, close_net)

int main(void)
{
	const struct CMUnitTest tests[] = {
		NET(three_nodes_in_association),
		NET(a_second_peer_is_not_heard),
		NET(loopback),
		NET(full_mesh),
		NET(atomics_of_several_clients),
		NET(one_send_reaches_a_group),
		NET(a_disk_write_in_three_steps),
		NET(control_and_data_channels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
