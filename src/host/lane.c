/* The way of whole messages between a QP and its peer: our ring to the peer's process, and its word of what it executed. */
#include "host/internal.h"

#include "direct/direct.h"
#include "direct/mapped.h"
#include "direct/message.h"
#include "link/shm.h"

#include <stddef.h>

_Static_assert(offsetof(struct export_entry, sequence) == 0, "what lane_is_good reads");
_Static_assert((int)MESSAGE_MAX_BYTES <= (int)LINK_MESSAGE_BYTES, "a message fits a link");

static const struct export_memory *shown_by(const struct host *h, const struct channel *ch)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) ; a good lane has its channel */
	return ch->is_loop ? h->direct.export.memory : ch->peer ? peer_direct(ch->peer)->export : NULL;
}

static struct export_watch watch_of(const struct qp *qp)
{
	return (struct export_watch){ qp->lane.entry, qp->lane.sequence };
}

bool lane_connect(void *host, struct qp *qp)
{
	struct host *h = host;
	struct export_watch watch;
	struct channel *ch;

	if (lane_is_good(&qp->lane))
		return true;
	ch = direct_channel(h, qp);
	if (!ch || ch->gone || !shown_by(h, ch) || !direct_watch(qp, shown_by(h, ch), &watch))
		return false;
	qp->lane = (struct lane){ ch, watch.entry, watch.sequence };
	return true;
}

static inline void commit(struct host *h, struct channel *ch, size_t bytes)
{
	ch->link->ops->commit(ch->link, bytes);
	if (!list_linked(&ch->dirty))
		list_append(&h->channels.dirty, &ch->dirty);
}

bool lane_send(void *host, struct qp *qp, const struct direct_message *m)
{
	struct host *h = host;
	struct channel *ch = qp->lane.channel;
	size_t bytes = message_bytes(m);
	void *record;

	if (ch->gone || (m->payload == PAYLOAD_PULLED && !ch->is_loop && !shm_peer_reads(ch->link)))
		return false;
	record = link_reserve(ch->link, bytes);
	if (!record)
		return false;
	message_build(m, record);
	commit(h, ch, bytes);
	return true;
}

bool lane_send_plain(void *host, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes)
{
	struct channel *ch = qp->lane.channel;
	void *record = ch->gone ? NULL : link_reserve(ch->link, MESSAGE_HEAD_BYTES + (size_t)bytes);

	if (!record)
		return false;
	message_build_plain(record, qp->attr.dest_qp_num, qp->qpn, psn, received, data, bytes);
	commit(host, ch, MESSAGE_HEAD_BYTES + (size_t)bytes);
	return true;
}

static bool read_own(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	(void)peer;
	(void)bytes;
	mapped_copy_out(iov, iovs, (const uint8_t *)(uintptr_t)address);
	return true;
}

static const struct direct_mover own_mover = { .read = read_own };

static bool pull(const struct channel *ch, const struct direct_message *m, uint32_t offset, const struct iovec *to, unsigned tos)
{
	const struct direct_peer *peer;

	if (ch->is_loop)
		return message_pull(m, offset, &own_mover, NULL, to, tos);
	if (!ch->peer)
		return false;
	peer = peer_direct(ch->peer);
	return message_pull(m, offset, peer->mover, peer->arg, to, tos);
}

/* A QP that stops is hidden before its buffers are the program's again: what was read after that is not the message. */
bool lane_pull(void *host, struct qp *qp, const struct direct_message *m, uint32_t offset, const struct iovec *to, unsigned tos)
{
	return lane_connect(host, qp) && pull(qp->lane.channel, m, offset, to, tos) && lane_is_good(&qp->lane);
}

void lane_publish(void *host, struct qp *qp)
{
	struct host *h = host;

	export_set_received(&h->direct.export, qp->shown, qp->received);
}

bool lane_received(void *host, struct qp *qp, psn_t *psn)
{
	struct host *h = host;
	struct export_watch watch = watch_of(qp);

	/* a peer that stopped since has executed what it says all the same */
	if (qp->lane.channel && export_read_received(shown_by(h, qp->lane.channel), &watch, psn))
		return true;
	if (!lane_connect(h, qp))
		return false;
	watch = watch_of(qp);
	return export_read_received(shown_by(h, qp->lane.channel), &watch, psn);
}

unsigned lane_deliver(struct host *h, struct channel *ch, const void *record, size_t bytes)
{
	struct iovec iov[DIRECT_IOVS];
	struct direct_message m;

	h->frames++;
	if (!h->ca.direct || !shown_by(h, ch) || !message_parse(&m, record, bytes, iov)) {
		h->ca.counters.malformed++;
		return 1;
	}
	h->ca.transport->message(&h->ca, h->now, ch, &m);
	if (!list_linked(&ch->told))
		list_append(&h->channels.told, &ch->told);
	return m.bytes < DIRECT_SLICE ? 1 : PUMP_FRAMES;
}

void lane_forget(struct host *h, const struct channel *ch)
{
	list_for_each(qp, &h->ca.all_qps, struct qp, all)
		if (qp->lane.channel == ch)
			qp->lane = (struct lane){ 0 };
}
