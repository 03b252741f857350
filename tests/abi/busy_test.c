/* A program that finds a message at every other poll hardly looks after anything else, and none of its polls in vain is one of
 * many: it sees all the same, after some hundreds of polls, that a send was executed of which no message tells. So it does
 * wherever in its polls the messages come. Two processes with a weftd of their own (e2e/with_weftd.sh). */
#include "sides_rc.h"

/* MOST: messages until the send must be complete. Phases are short and many, as a machine with other work stops this program now
 * and then, and its helper thread looks after all meanwhile. */
enum { STREAM, SINGLE, QPS, DEPTH = 16, PHASES = 60, WARM = 40, MOST = 220, MESSAGES = PHASES * (WARM + MOST) };

/* Of both, by side. */
static struct shared {
	_Atomic uint32_t qpn[2][QPS], ready[2];
	_Atomic uint32_t asked, sent;	/* messages of the stream */
} *shared;

static struct ibv_qp *qp[QPS];
static unsigned sends_done;	/* of SINGLE */

static void open_ends(void)
{
	sides_open(0, 4 * DEPTH);
	for (int i = 0; i < QPS; i++) {
		qp[i] = sides_qp(DEPTH, DEPTH);
		atomic_store(&shared->qpn[side][i], qp[i]->qp_num);
	}
}

static void connect_ends(void)
{
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_attr attr = { .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 };

		wait_for(&shared->qpn[!side][i], 1);
		attr.dest_qp_num = atomic_load(&shared->qpn[!side][i]);
		require(!rc_connect(qp[i], attr), "no connection");
		for (int n = 0; n < DEPTH / 2; n++)
			sides_receive(qp[i]);
	}
	atomic_store(&shared->ready[side], 1);
	wait_for(&shared->ready[!side], 1);
}

/* A message of the stream? */
static bool poll_once(void)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) == 0)
		return false;
	require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	if (wc.opcode == IBV_WC_RECV)
		sides_receive(qp[wc.qp_num == qp[SINGLE]->qp_num ? SINGLE : STREAM]);
	sends_done += wc.opcode == IBV_WC_SEND && wc.qp_num == qp[SINGLE]->qp_num;
	return wc.opcode == IBV_WC_RECV && wc.qp_num == qp[STREAM]->qp_num;
}

/* The peer sends when it is asked to, so that the first poll is in vain, and the second is not. */
static void take_message(uint32_t n)
{
	require(!poll_once(), "a message that nobody asked for");
	atomic_store(&shared->asked, n);
	wait_for(&shared->sent, n);
	while (!poll_once())
		;
}

static void receive_stream(void)
{
	uint32_t n = 0;

	for (unsigned phase = 1; phase <= PHASES; phase++) {
		for (unsigned i = 0; i < WARM; i++)
			take_message(++n);
		sides_send(qp[SINGLE], "a send is refused");
		for (unsigned i = 0; i < MOST; i++)
			take_message(++n);
		require(sends_done == phase, "a send that was executed long ago is not complete");
		require(!poll_once(), "a message that nobody asked for");	/* those of the next phase come at other polls */
	}
}

static void send_stream(void)
{
	for (uint32_t n = 1; n <= MESSAGES; n++) {
		while (atomic_load(&shared->asked) < n)
			(void)poll_once();
		sides_send(qp[STREAM], "a send is refused");
		atomic_store(&shared->sent, n);
	}
}

static void run(void)
{
	open_ends();
	connect_ends();
	if (side == 0)
		receive_stream();
	else
		send_stream();
}

int main(void)
{
	shared = sides_memory(sizeof(*shared));
	sides_run(run);
	return 0;
}
