/* Extended polling: one completion at a time, its fields read on demand. The runtime's lock is held for a step, never between
 * two. `poller` keeps other threads' extended polls out, from the first step to the end. */
#include "abi/verbs/object.h"

#include "control/clock.h"
#include "runtime/entry.h"

#include <time.h>

static void hold(struct abi_cq *cq)
{
	if (!cq->single_threaded)
		pthread_mutex_lock(&cq->poller);
}

static void let_go(struct abi_cq *cq)
{
	if (!cq->single_threaded)
		pthread_mutex_unlock(&cq->poller);
}

static int step(struct abi_cq *cq)
{
	if (!cq_take(cq->cq, &cq->at) && !(runtime_look_again(cq->rt) && cq_take(cq->cq, &cq->at)))
		return ENOENT;
	cq->ibv.status = cq->at.status;
	cq->ibv.wr_id = cq->at.wr_id;
	return 0;
}

static int next_poll(struct ibv_cq_ex *ibv)
{
	struct abi_cq *cq = to_cq_ex(ibv);
	int err;

	runtime_enter_poll(cq->rt);
	err = step(cq);
	if (err == 0)
		runtime_poll_found();
	runtime_leave(cq->rt);
	return err;
}

static int start_poll(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
{
	struct abi_cq *cq = to_cq_ex(ibv);
	int err;

	if (attr && attr->comp_mask)
		return EINVAL;
	hold(cq);
	err = next_poll(ibv);
	if (err)
		let_go(cq);
	return err;
}

static void end_poll(struct ibv_cq_ex *ibv)
{
	struct abi_cq *cq = to_cq_ex(ibv);

	runtime_enter(cq->rt);
	cq_doorbell(cq->cq);
	runtime_leave(cq->rt);
	let_go(cq);
}

#define READER(type, name, value)			\
	static type name(struct ibv_cq_ex *ibv)		\
	{						\
		const struct cqe *at = &to_cq_ex(ibv)->at;	\
							\
		return value;				\
	}

READER(enum ibv_wc_opcode, read_opcode, at->opcode)
READER(uint32_t, read_vendor_err, at->vendor_err)
READER(uint32_t, read_byte_len, at->byte_len)
READER(__be32, read_imm_data, at->imm)
READER(uint32_t, read_qp_num, at->wqn)
READER(uint32_t, read_src_qp, at->src_qp)
READER(unsigned int, read_wc_flags, at->wc_flags)
READER(uint32_t, read_slid, at->slid)
READER(uint8_t, read_sl, at->sl)
READER(uint8_t, read_dlid_path_bits, at->dlid_path_bits)
READER(uint64_t, read_completion_ts, at->timestamp_ns)

/* Stamps are of the monotonic clock; the wall clock's distance to it is asked for when somebody wants to know. */
static uint64_t read_wallclock(struct ibv_cq_ex *ibv)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return (uint64_t)wall.tv_sec * WTIME_S + (uint64_t)wall.tv_nsec - clock_now() + to_cq_ex(ibv)->at.timestamp_ns;
}

/* What cannot be asked for at creation (VLAN, flow tag, tag matching) reads as nothing. */
static uint16_t read_cvlan(struct ibv_cq_ex *ibv)
{
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ibv)
{
	return 0;
}

static void read_tm_info(struct ibv_cq_ex *ibv, struct ibv_wc_tm_info *info)
{
	*info = (struct ibv_wc_tm_info){ 0 };
}

void cq_ex_setup(struct abi_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ibv;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_cvlan = read_cvlan;
	ex->read_flow_tag = read_flow_tag;
	ex->read_tm_info = read_tm_info;
	ex->read_completion_wallclock_ns = read_wallclock;
}
