/* What WEFT_PROFILE, from the environment, asks for is done: a process that talks to itself by packets. Exit 0: it was.
 * `profile acks N`: a write of PACKETS packets draws N ACKs, merged ones counted.
 * `profile kept`: what a CQ cannot hold is kept, told once, and comes in order when it is made larger. */
#include "attach.h"
#include "connect.h"

#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACKETS = 12, MTU = 256, BYTES = PACKETS * MTU, CQES = 4, DEPTH = 16 };

static unsigned cq_errors;

static void cq_event(struct cq *cq)
{
	(void)cq;
}

static void async_event(enum ibv_event_type type, void *object)
{
	(void)object;
	cq_errors += type == IBV_EVENT_CQ_ERR;
}

static struct {
	struct runtime *rt;
	struct pd *pd;
	struct cq *cq, *other_cq;
	struct qp *qp[2];
	struct mr *mr;
	uint8_t buffer[BYTES];
} me;

static struct qp *make_qp(struct cq *cq)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
					    .max_send_sge = 1, .max_recv_sge = 1 } };
	struct qp *qp;

	check(qp_create(runtime_ca(me.rt), &runtime_ca(me.rt)->dev[0], &init, me.pd, cq, cq, NULL, NULL, &qp), "qp");
	return qp;
}

static void connect_qp(int i, wtime now)
{
	rc_connect(me.qp[i], now, (struct ibv_qp_attr){
		.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .path_mtu = IBV_MTU_256,
		.dest_qp_num = me.qp[!i]->qpn, .ah_attr = { .dlid = me.qp[i]->dev->lid, .port_num = 1 },
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 4, .max_dest_rd_atomic = 4 });
}

static void open_all(void)
{
	static const struct runtime_events events = { .cq_event = cq_event, .async_event = async_event };
	struct ca_device *dev;
	wtime now;

	me.rt = attach();
	runtime_set_events(me.rt, &events);
	dev = &runtime_ca(me.rt)->dev[0];
	now = runtime_enter(me.rt);
	check(pd_create(runtime_ca(me.rt), dev, &me.pd), "pd");
	check(cq_create(runtime_ca(me.rt), dev, CQES, &me.cq), "cq");
	check(cq_create(runtime_ca(me.rt), dev, DEPTH, &me.other_cq), "cq");
	check(mr_create(me.pd, me.buffer, BYTES, (uintptr_t)me.buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &me.mr),
	      "mr");
	me.qp[0] = make_qp(me.cq);
	me.qp[1] = make_qp(me.other_cq);
	connect_qp(0, now);
	connect_qp(1, now);
	runtime_leave(me.rt);
}

static void post_write(uint64_t id, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)me.buffer, bytes, me.mr->key };
	struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
				  .num_sge = 1, .wr.rdma = { (uintptr_t)me.buffer, me.mr->key } }, *bad;
	wtime now = runtime_enter(me.rt);

	check(qp_post_send(me.qp[0], now, &wr, &bad), "post");
	runtime_leave(me.rt);
}

static bool poll_once(struct cqe *cqe)
{
	bool any;

	runtime_enter_poll(me.rt);
	any = cq_poll(me.cq, cqe);
	runtime_leave(me.rt);
	return any;
}

static void wait_for(uint64_t id)
{
	struct cqe cqe;

	while (!poll_once(&cqe))
		;
	if (cqe.status != IBV_WC_SUCCESS || cqe.wr_id != id)
		die("another completion than the next");
}

static void count_acks(unsigned expected)
{
	const struct counters *c = &runtime_ca(me.rt)->counters;
	uint64_t acks;

	post_write(1, BYTES);
	wait_for(1);
	acks = c->sent_pkts + c->ack_deferred - PACKETS;
	if (c->direct_writes || acks != expected) {
		fprintf(stderr, "%llu ACKs, not %u\n", (unsigned long long)acks, expected);
		die("the profile is not what WEFT_PROFILE says");
	}
}

/* With more than the CQ holds, until it has told. */
static void overfill(void)
{
	for (uint64_t id = 0; id < DEPTH / 2; id++)
		post_write(id, 1);
	while (!cq_errors) {
		runtime_enter_poll(me.rt);
		runtime_leave(me.rt);
	}
}

static void kept(void)
{
	overfill();
	runtime_enter(me.rt);
	check(cq_resize(me.cq, DEPTH), "resize");
	runtime_leave(me.rt);
	for (uint64_t id = 0; id < DEPTH / 2; id++)
		wait_for(id);
	if (cq_errors != 1)
		die("what was kept was told again");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	open_all();
	if (argc == 3 && strcmp(mode, "acks") == 0)
		count_acks((unsigned)atoi(argv[2]));
	else if (strcmp(mode, "kept") == 0)
		kept();
	else
		die("usage: profile acks N | kept");
	return 0;
}
