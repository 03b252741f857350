#include "runtime/requests.h"

#include "control/clock.h"
#include "peers/channel.h"
#include "runtime/entry.h"
#include "runtime/state.h"
#include "verbs/qp.h"
#include "wire/mtu.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* Our choices: weftd answers in microseconds, and a stopped one is not waited for. */
enum { LET_OUT_LOOK = 50 * 1000, WIRE_PATIENCE = 5, WAY_PATIENCE = 20 };

static const wtime LET_OUT = 200 * WTIME_MS;

void runtime_join_begin(struct runtime *rt)
{
	pthread_mutex_lock(&rt->asking);
}

bool runtime_join(struct runtime *rt, int *err)
{
	struct control_msg msg;

	if (*err != -EINPROGRESS)
		return false;
	runtime_enter_briefly(rt);
	msg = rt->join;
	runtime_leave(rt);
	*err = runtime_request(rt, &msg);
	if (*err)
		return false;
	runtime_enter_briefly(rt);
	rt->join_state = JOIN_GRANTED;
	runtime_leave(rt);
	return true;
}

/* What was granted and not used is given back. */
void runtime_join_end(struct runtime *rt)
{
	struct control_msg msg;
	bool unused;

	runtime_enter_briefly(rt);
	unused = rt->join_state == JOIN_GRANTED;
	rt->join_state = JOIN_NONE;
	msg = rt->join;
	runtime_leave(rt);
	msg.a = 0;
	if (unused)
		session_post(&rt->session, &msg, NULL);
	pthread_mutex_unlock(&rt->asking);
}

/* Waits as long as `waits` says so of the process and `qp`, and no longer than LET_OUT. */
static void wait_while(struct runtime *rt, bool (*waits)(struct runtime *rt, const struct qp *qp), const struct qp *qp)
{
	wtime give_up = clock_now() + LET_OUT;
	bool still;

	do {
		runtime_enter(rt);
		still = !rt->peers.in_forked_child && waits(rt, qp);
		runtime_leave(rt);
		if (still)
			nanosleep(&(struct timespec){ .tv_nsec = LET_OUT_LOOK }, NULL);
	} while (still && clock_now() < give_up);
}

static bool is_held_back(struct runtime *rt, const struct qp *qp)
{
	if (qp->sq.ulp.rung != qp->sq.engine.announced)
		return true;
	return list_linked(&qp->ready) && qp->sq.engine.started != qp->sq.engine.announced && channels_come(&rt->peers);
}

void runtime_flush_qp(struct runtime *rt, struct qp *qp)
{
	wait_while(rt, is_held_back, qp);
}

static bool awaits_wire(struct runtime *rt, const struct qp *qp)
{
	(void)qp;
	return rt->peers.roce.state == ROCE_SOCKET_ASKED;
}

void runtime_await_wire(struct runtime *rt, const struct ca_device *dev)
{
	bool asked;

	runtime_enter_briefly(rt);
	if (dev)
		roce_socket_expect(&rt->peers, dev);
	asked = awaits_wire(rt, NULL);
	runtime_leave(rt);
	/* a peer that sends without retries does so once */
	for (int i = 0; asked && i < WIRE_PATIENCE; i++)
		wait_while(rt, awaits_wire, NULL);
}

/* A port that is another's is asked for several times in a second (peers/roce_socket.c) before that is certain, and who ends
 * when he hears of it has been told why. */
static bool is_undecided(struct runtime *rt, const struct qp *qp)
{
	(void)qp;
	return roce_socket_is_undecided(&rt->peers.roce);
}

static bool wire_is_refused(struct runtime *rt)
{
	bool refused;

	runtime_enter_briefly(rt);
	roce_socket_need(&rt->peers);
	runtime_leave(rt);
	for (int i = 0; i < WAY_PATIENCE; i++)
		wait_while(rt, is_undecided, NULL);
	runtime_enter_briefly(rt);
	refused = rt->peers.roce.state == ROCE_SOCKET_REFUSED;
	runtime_leave(rt);
	return refused;
}

/* Routers have told the kernel of some paths only; weftd asks the other end. */
static uint8_t longest(struct runtime *rt, const struct packet_path *path, unsigned mtu)
{
	struct control_msg msg = { .type = CTL_PATH_MTU, .b = mtu_bytes(mtu) };

	memcpy(msg.gid, path->sgid, sizeof(msg.gid));
	memcpy(msg.dgid, path->dgid, sizeof(msg.dgid));
	if (session_try(&rt->session, &msg, NULL, 0, NULL, NULL) || msg.status)
		return (uint8_t)mtu;
	while (mtu > IBV_MTU_256 && mtu_bytes(mtu) > msg.b)
		mtu--;
	return (uint8_t)mtu;
}

int runtime_way_to(struct runtime *rt, const uint8_t dgid[16], uint8_t sgid[16], uint8_t *mtu)
{
	static const uint8_t none[16];
	struct packet_path path = { .has_grh = true };
	int found;

	memcpy(path.dgid, dgid, sizeof(path.dgid));
	memcpy(path.sgid, sgid, sizeof(path.sgid));
	if (memcmp(sgid, none, sizeof(none)) == 0 && roce_socket_source(dgid, path.sgid))
		return -ENETUNREACH;
	found = roce_socket_path_mtu(&path);
	if (!found || wire_is_refused(rt))
		return -ENETUNREACH;
	memcpy(sgid, path.sgid, sizeof(path.sgid));
	*mtu = longest(rt, &path, (unsigned)found);
	return 0;
}

static bool has_doorbells(struct runtime *rt, const struct qp *qp)
{
	return doorbells_any(rt->ca.doorbells);
}

void runtime_run_engine(struct runtime *rt)
{
	if (ca_is_apart(&rt->ca))
		wait_while(rt, has_doorbells, NULL);
}

static bool numbers_are_low(struct runtime *rt)
{
	bool low;

	runtime_enter_briefly(rt);
	low = qpn_pool_low(&rt->qpns);
	runtime_leave(rt);
	return low;
}

void runtime_reserve_numbers(struct runtime *rt)
{
	struct control_msg msg = { .type = CTL_SLOT };

	if (!numbers_are_low(rt))
		return;
	pthread_mutex_lock(&rt->asking);
	if (numbers_are_low(rt) && session_try(&rt->session, &msg, NULL, 0, NULL, NULL) == 0 && msg.slot > 0 &&
	    msg.slot < PAGE_SLOTS) {
		runtime_enter_briefly(rt);
		if (qpn_pool_add_slot(&rt->qpns, &rt->rand, msg.slot) == 0)
			channels_own(&rt->peers, msg.slot);
		runtime_leave(rt);
	}
	pthread_mutex_unlock(&rt->asking);
}

int runtime_request(struct runtime *rt, struct control_msg *msg)
{
	return session_call(&rt->session, msg, NULL, 0, NULL, NULL);
}

int runtime_post(struct runtime *rt, const struct control_msg *msg)
{
	return session_post(&rt->session, msg, NULL);
}
