/* The QP state machine as a table of modify masks, which each transport names. Here is the standard's: IBA 11.2.5.2, tables 91 to
 * 96; XRC: A14; raw packet: as the Linux kernel. A transition not in the table is refused, as is a mask that lacks a required
 * attribute or has one that is neither required nor optional. To RESET and ERR a way leads from everywhere, with no mask. */
#include "verbs/direct.h"
#include "verbs/qp.h"

#include <errno.h>

enum {
	RC = 1 << QP_KIND_RC, UC = 1 << QP_KIND_UC, UD = 1 << QP_KIND_UD,
	XI = 1 << QP_KIND_XRC_SEND, XT = 1 << QP_KIND_XRC_RECV, RAW = 1 << QP_KIND_RAW,
	CONNECTED = RC | UC | XI | XT,
	ALL = CONNECTED | UD | RAW,
};

enum {
	CUR = IBV_QP_CUR_STATE, PKEY = IBV_QP_PKEY_INDEX, PORT = IBV_QP_PORT, QKEY = IBV_QP_QKEY,
	ACCESS = IBV_QP_ACCESS_FLAGS, AV = IBV_QP_AV, ALT = IBV_QP_ALT_PATH, MIG = IBV_QP_PATH_MIG_STATE,
	CONNECT = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	RESPONDER = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RETRY = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	RNR = IBV_QP_MIN_RNR_TIMER, TIMEOUT = IBV_QP_TIMEOUT,
	RUNNING = CUR | ACCESS | ALT | MIG,
};

static const struct qp_transition iba[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, UD,		PKEY | PORT | QKEY,		0 },
	{ IBV_QPS_RESET, IBV_QPS_INIT, CONNECTED,	PKEY | PORT | ACCESS,		0 },
	{ IBV_QPS_RESET, IBV_QPS_INIT, RAW,		PORT,				0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, UD,		0,	PKEY | PORT | QKEY },
	{ IBV_QPS_INIT, IBV_QPS_INIT, CONNECTED,	0,	PKEY | PORT | ACCESS },
	{ IBV_QPS_INIT, IBV_QPS_INIT, RAW,		0,	PORT },
	{ IBV_QPS_INIT, IBV_QPS_RTR, RAW,		0,			0 },
	{ IBV_QPS_INIT, IBV_QPS_RTR, UD,		0,			PKEY | QKEY },
	{ IBV_QPS_INIT, IBV_QPS_RTR, UC | XI,		CONNECT,		ALT | ACCESS | PKEY },
	{ IBV_QPS_INIT, IBV_QPS_RTR, RC | XT,		CONNECT | RESPONDER,	ALT | ACCESS | PKEY },
	{ IBV_QPS_RTR, IBV_QPS_RTS, RAW,		0,			CUR },
	{ IBV_QPS_RTR, IBV_QPS_RTS, UD,			IBV_QP_SQ_PSN,		CUR | QKEY },
	{ IBV_QPS_RTR, IBV_QPS_RTS, UC,			IBV_QP_SQ_PSN,		RUNNING },
	{ IBV_QPS_RTR, IBV_QPS_RTS, RC,			IBV_QP_SQ_PSN | RETRY,	RUNNING | RNR },
	{ IBV_QPS_RTR, IBV_QPS_RTS, XI,			IBV_QP_SQ_PSN | RETRY,	RUNNING },
	{ IBV_QPS_RTR, IBV_QPS_RTS, XT,			IBV_QP_SQ_PSN | TIMEOUT,	RUNNING | RNR },
	{ IBV_QPS_RTS, IBV_QPS_RTS, RAW,		0,	CUR },
	{ IBV_QPS_RTS, IBV_QPS_RTS, UD,			0,	CUR | QKEY },
	{ IBV_QPS_RTS, IBV_QPS_RTS, UC | XI,		0,	RUNNING },
	{ IBV_QPS_RTS, IBV_QPS_RTS, RC | XT,		0,	RUNNING | RNR },
	{ IBV_QPS_RTS, IBV_QPS_SQD, ALL,		0,	IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, RAW,		0,	CUR },
	{ IBV_QPS_SQD, IBV_QPS_RTS, UD,			0,	CUR | QKEY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, UC | XI,		0,	RUNNING },
	{ IBV_QPS_SQD, IBV_QPS_RTS, RC | XT,		0,	RUNNING | RNR },
	{ IBV_QPS_SQD, IBV_QPS_SQD, UD,			0,	PKEY | QKEY },
	{ IBV_QPS_SQD, IBV_QPS_SQD, UC,			0,	AV | ALT | ACCESS | PKEY | MIG },
	{ IBV_QPS_SQD, IBV_QPS_SQD, RC,			0,	PORT | AV | RETRY | RESPONDER | ALT | ACCESS | PKEY | MIG },
	{ IBV_QPS_SQD, IBV_QPS_SQD, XI,			0,	PORT | AV | RETRY | ALT | ACCESS | PKEY | MIG },
	{ IBV_QPS_SQD, IBV_QPS_SQD, XT,			0,	PORT | AV | TIMEOUT | RESPONDER | ALT | ACCESS | PKEY | MIG },
	{ IBV_QPS_SQE, IBV_QPS_RTS, RAW,		0,	CUR },
	{ IBV_QPS_SQE, IBV_QPS_RTS, UD,			0,	CUR | QKEY },
	{ IBV_QPS_SQE, IBV_QPS_RTS, UC,			0,	CUR | ACCESS },
};

const struct qp_transitions qp_iba_transitions = { iba, sizeof(iba) / sizeof(iba[0]) };

int transition_check(const struct qp_transitions *table, enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		     int mask)
{
	int attributes = mask & ~IBV_QP_STATE, types = 1 << qp_kind(type);

	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return attributes ? -EINVAL : 0;
	for (unsigned i = 0; i < table->rows; i++) {
		const struct qp_transition *t = &table->row[i];

		if (t->from != from || t->to != to || !(t->types & types))
			continue;
		return t->required & ~attributes || attributes & ~(t->required | t->optional) ? -EINVAL : 0;
	}
	return -EINVAL;
}

/* Its peer's direct path sees the state and the attributes: none uses the old ones any more, then the new ones. */
static void hide(struct qp *qp)
{
	if (qp->ca->direct && qp->published)
		qp->ca->direct->unpublish_qp(qp->ca->direct_arg, qp);
}

static void show(struct qp *qp)
{
	if (qp->ca->direct && qp->dev->transport->messages && !qp->published && !qp->sends_packets &&
	    (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC) && qp->attr.path_mig_state == IBV_MIG_MIGRATED)
		qp->ca->direct->publish_qp(qp->ca->direct_arg, qp);
}

void qp_established(struct qp *qp)
{
	if (qp->state != IBV_QPS_RTR)
		return;
	qp_event(qp, IBV_EVENT_COMM_EST);
	show(qp);
}

/* Packets that are too long for their path would all be lost. A peer whose path is as narrow finds the same, as it must: both
 * ends have one path MTU (IBA 9.7.1). */
static void fit_path(struct qp *qp)
{
	int mtu[2] = { qp_path_mtu(qp, &qp->path), qp->migration ? qp_path_mtu(qp, &qp->migration->alternate) : 0 };

	for (unsigned i = 0; i < 2; i++)
		if (mtu[i] && (int)qp->attr.path_mtu > mtu[i])
			qp->attr.path_mtu = (enum ibv_mtu)mtu[i];
}

/* What the peer has sent on the strength of a promise is complete there: it is executed while it can be. The QP is hidden. */
static void keep_promise(struct qp *qp)
{
	if (!qp->receives.are_promised || !qp->ca->direct)
		return;
	qp->receives.are_promised = false;	/* what is executed may end the QP */
	qp->ca->direct->keep_promise(qp->ca->direct_arg, qp);
}

void qp_path_changed(struct qp *qp)
{
	hide(qp);
	keep_promise(qp);
	qp->direct_path = (struct direct_path){ 0 };
	qp->route = (struct route){ 0 };
	lid_paths_forget(qp);
	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
		show(qp);
}

void qp_break_promise(struct qp *qp)
{
	bool was_shown = qp->published;

	if (qp->receives.are_promised) {
		hide(qp);
		keep_promise(qp);
		if (was_shown && qp->state != IBV_QPS_ERR)
			show(qp);
	}
	qp->receives.until = qp->rq.engine.started;
}

void qps_forget_region(const struct mr *mr)
{
	list_for_each(qp, &mr->pd->ca->all_qps, struct qp, all) {
		if (qp->pd != mr->pd)
			continue;
		qp_break_promise(qp);
		qp->receives.region.bytes = qp->sends_from.bytes = 0;
	}
}

/* Queues are flushed after the transport has forgotten, send queue first. IBA 10.3.1.5, 10.3.1.7. */
static void enter(struct qp *qp, wtime now, enum ibv_qp_state to, int mask)
{
	enum ibv_qp_state from;

	hide(qp);
	keep_promise(qp);
	from = qp->state;
	if (from == IBV_QPS_ERR && to != IBV_QPS_ERR && to != IBV_QPS_RESET)
		return;		/* what was promised has ended it */
	if (to == IBV_QPS_RESET || mask & (IBV_QP_AV | IBV_QP_PKEY_INDEX)) {
		qp->direct_path = (struct direct_path){ 0 };
		qp->route = (struct route){ 0 };
		lid_paths_forget(qp);
	}
	qp->state = to;
	qp->ca->now = now;
	if (mask & IBV_QP_AV)
		qp_route(qp);
	if (to == IBV_QPS_RTR && mask & IBV_QP_PATH_MTU)
		fit_path(qp);
	qp->dev->transport->qp_modified(qp, now, from, mask);
	if (to == IBV_QPS_RESET)
		qp_queues_reset(qp);
	if (to == IBV_QPS_ERR) {
		qp_flush_send(qp);
		qp_flush_recv(qp);
		if (qp->srq && from != IBV_QPS_ERR && from != IBV_QPS_RESET)
			qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
		list_remove(&qp->ready);
		list_remove(&qp->withheld);
	}
	qp_rearm(qp);
	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
		show(qp);
}

int qp_modify(struct qp *qp, wtime now, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	int err;

	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state)
		return -EINVAL;
	err = transition_check(qp->dev->transport->transitions, qp->type, qp->state, to, mask);
	if (err == 0)
		err = qp_attr_check(qp, attr, mask);
	if (err == 0)
		err = migration_reserve(qp, mask);
	if (err < 0)
		return err;
	qp_attr_store(qp, attr, mask);
	migration_enter(qp, attr, mask);
	enter(qp, now, to, mask);
	return 0;
}

/* What was promised is executed on the way, and may fail again. */
void qp_error(struct qp *qp, wtime now, int event)
{
	if (qp->is_failing)
		return;
	if (event > 0)
		qp_event(qp, (enum ibv_event_type)event);
	if (qp->state == IBV_QPS_ERR)
		return;
	qp->is_failing = true;
	enter(qp, now, IBV_QPS_ERR, IBV_QP_STATE);
	qp->is_failing = false;
}

void qp_send_error(struct qp *qp, wtime now, int event)
{
	if (!qp_is_datagram(qp) && qp->type != IBV_QPT_UC) {
		qp_error(qp, now, event);
		return;
	}
	if (event > 0)
		qp_event(qp, (enum ibv_event_type)event);
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	enter(qp, now, IBV_QPS_SQE, IBV_QP_STATE);
	qp_flush_send(qp);
}
