/* What has arrived before a program moves its QP to ERR counts: a send that the peer has received and acknowledged is complete,
 * not flushed, even where the program did not poll in between. So is the last message before a connection is left: the peer has
 * it and disconnects, and the sender's rdma_disconnect comes before its next poll. IBA 10.3.1: nothing is flushed that is
 * complete. arrived_test DEVICE. Runs with a weftd of its own (e2e/with_weftd.sh). */
#include "sides_rc.h"

#include <string.h>

/* Warm turns make both ends known as programs that poll: what arrives is theirs to take in then, for a tick of the helper. */
enum { ROUNDS = 160, WARM = 300, RECEIVES = WARM + 1, GIDS = 16, POLLS_MOST = 50000000 };

/* Of both, by side. */
static struct shared {
	_Atomic uint32_t qpn[2], ready[2], heard, over[2];
} *shared;

static struct ibv_qp_attr to_peer(uint32_t qpn)
{
	static const uint8_t ipv4[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_qp_attr attr = { .dest_qp_num = qpn, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 };
	struct ibv_port_attr port;

	require(!ibv_query_port(context, 1, &port), "no port");
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return attr;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.hop_limit = 1;
	for (uint8_t i = 0; i < GIDS; i++) {
		attr.ah_attr.grh.sgid_index = i;
		if (!ibv_query_gid(context, 1, i, &attr.ah_attr.grh.dgid) && !memcmp(&attr.ah_attr.grh.dgid, ipv4, sizeof(ipv4)))
			break;
	}
	return attr;
}

static struct ibv_qp *connected(uint32_t round)
{
	struct ibv_qp *qp = sides_qp(4, RECEIVES);

	atomic_store(&shared->qpn[side], qp->qp_num);
	atomic_store(&shared->ready[side], 2 * round + 1);
	wait_for(&shared->ready[!side], 2 * round + 1);
	require(!rc_connect(qp, to_peer(atomic_load(&shared->qpn[!side]))), "no connection");
	for (int i = 0; i < RECEIVES; i++)
		sides_receive(qp);
	atomic_store(&shared->ready[side], 2 * round + 2);
	wait_for(&shared->ready[!side], 2 * round + 2);
	return qp;
}

/* Polls until so many more sends and receives have completed, in whatever order: what comes early counts for the next call. */
static void take(int sends, int receives)
{
	static int sends_due, receives_due;
	struct ibv_wc wc;

	sends_due += sends;
	receives_due += receives;
	for (unsigned polls = 0; polls < POLLS_MOST && (sends_due > 0 || receives_due > 0); polls++) {
		if (ibv_poll_cq(cq, 1, &wc) == 0)
			continue;
		require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		if (wc.opcode == IBV_WC_RECV)
			receives_due--;
		else
			sends_due--;
	}
	require(sends_due <= 0 && receives_due <= 0, "a completion does not come");
}

static void answer_each_other(struct ibv_qp *qp)
{
	for (int i = 0; i < WARM; i++) {
		if (side == 0)
			sides_send(qp, "a send is refused");
		take(side == 0, 1);
		if (side == 1)
			sides_send(qp, "a send is refused");
		take(side == 1, 0);
	}
}

/* Receives that nobody needed may be left. */
static void drain(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		require(wc.status == IBV_WC_WR_FLUSH_ERR, "a message that nobody sent");
}

static void run_round(uint32_t round)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = connected(round);

	answer_each_other(qp);
	if (side == 0) {
		sides_send(qp, "a send is refused");
		wait_for(&shared->heard, round + 1);
		require(!ibv_modify_qp(qp, &error, IBV_QP_STATE), "ERR is refused");
		take(1, 0);
	} else {
		take(0, 1);
		require(!ibv_modify_qp(qp, &error, IBV_QP_STATE), "ERR is refused");	/* the ACK leaves before, if it has not */
		atomic_store(&shared->heard, round + 1);
	}
	drain();
	atomic_store(&shared->over[side], round + 1);
	wait_for(&shared->over[!side], round + 1);
	require(!ibv_destroy_qp(qp), "the QP stays");
	drain();
}

static int device;

static void run(void)
{
	sides_open(device, 2 * RECEIVES);
	for (uint32_t round = 0; round < ROUNDS; round++)
		run_round(round);
}

int main(int argc, char **argv)
{
	device = argc > 1 ? atoi(argv[1]) : 0;
	shared = sides_memory(sizeof(*shared));
	sides_run(run);
	return 0;
}
