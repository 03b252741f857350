/* The way of direct messages between a QP and its peer: our ring to the peer's process, and its word of what it executed. */
#include "peers/direct_messages.h"

#include "direct/copy.h"
#include "direct/record.h"
#include "direct/rma.h"
#include "link/shm.h"
#include "peers/direct_target.h"
#include "peers/peer.h"
#include "peers/peers.h"
#include "peers/route.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

#include <stddef.h>

_Static_assert(offsetof(struct share_entry, sequence) == 0, "what direct_path_is_current reads");
_Static_assert((int)RECORD_MAX_BYTES <= (int)SHM_MESSAGE_BYTES, "a message fits a channel");

static const struct share_memory *shown_by(const struct peers *ps, const struct channel *ch)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) ; a current path has its channel */
	return ch->is_loop ? ps->published.share.memory : ch->peer ? peer_rma(ch->peer)->share : NULL;
}

static struct share_watch watch_of(const struct qp *qp)
{
	return (struct share_watch){ qp->direct_path.entry, qp->direct_path.sequence };
}

/* Who does not see our QP drops what it says, and an ACK timeout would tell us only then. */
static bool sees(const struct channel *ch, const struct qp *qp)
{
	return qp->published && (ch->is_loop || shm_peer_reads(ch->shm));
}

bool direct_messages_connect(void *peers, struct qp *qp)
{
	struct peers *ps = peers;
	struct share_watch watch;
	struct channel *ch;

	if (direct_path_is_current(&qp->direct_path))
		return true;
	ch = direct_target_channel(ps, qp);
	if (!ch || ch->gone || !sees(ch, qp) || !shown_by(ps, ch) || !rma_watch(qp, shown_by(ps, ch), &watch))
		return false;
	qp->direct_path = (struct direct_path){ .channel = ch, .entry = watch.entry, .sequence = watch.sequence };
	return true;
}

/* What goes through the loop is taken in by who sent it, whom nobody wakes. */
static inline void commit(struct peers *ps, const struct channel *ch, size_t bytes)
{
	shm_commit(ch->shm, bytes);
	if (!ch->is_loop)
		links_note_sent(&ps->links, &ch->shm->link);
}

/* To ourselves nothing waits in the ring. */
static inline struct direct_promise promise_of(const struct channel *ch, struct qp *qp)
{
	if (ch->is_loop)
		return (struct direct_promise){ 0 };
	return qp_promise(qp);
}

/* is_short is a constant: then of m only what direct_ops.send_short has is read. */
static inline __attribute__((always_inline)) bool send_record(struct peers *ps, struct qp *qp, const struct direct_message *m,
							      bool is_short)
{
	const struct channel *ch = qp->direct_path.channel;
	size_t bytes = is_short ? RECORD_HEAD_BYTES + (size_t)m->bytes : record_bytes(m);
	struct shm *shm = ch->shm;
	void *record = ch->gone ? NULL : shm_reserve(shm, bytes);

	if (!record)
		return false;
	if (is_short)
		record_build_short(record, qp->attr.dest_qp_num, qp->qpn, m->psn, m->received, promise_of(ch, qp),
				   m->iov->iov_base, m->bytes, m->solicited);
	else
		record_build(m, record);
	commit(ps, ch, bytes);
	return true;
}

/* The same while the program may unmap what it sends: of what is gone the message has zeros, as packets have. */
static __attribute__((noinline)) bool send_safely(struct peers *ps, struct qp *qp, const struct direct_message *m, bool is_short)
{
	const struct ca *ca = ps->ca;
	uint8_t payload[RECORD_MAX_BYTES];
	const struct iovec copied = { payload, m->bytes };
	struct direct_message safe = *m;
	size_t at = 0;

	if (m->payload == PAYLOAD_EAGER && m->bytes <= sizeof(payload)) {
		for (unsigned i = 0; i < m->iovs; at += m->iov[i++].iov_len)
			if (ca->ops->read_program(ca->owner, payload + at, m->iov[i].iov_base, m->iov[i].iov_len) < 0)
				memset(payload + at, 0, m->iov[i].iov_len);
		safe.iov = &copied;
		safe.iovs = 1;
	}
	return send_record(ps, qp, &safe, is_short);
}

bool direct_messages_send(void *peers, struct qp *qp, const struct direct_message *m)
{
	struct peers *ps = peers;

	return ps->ca->memory_may_go ? send_safely(ps, qp, m, false) : send_record(ps, qp, m, false);
}

bool direct_messages_send_short(void *peers, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes,
				bool solicited)
{
	struct peers *ps = peers;
	const struct iovec iov = { (void *)(uintptr_t)data, bytes };
	const struct direct_message m = { .psn = psn, .received = received, .bytes = bytes, .iov = &iov, .iovs = 1,
					 .solicited = solicited };

	return ps->ca->memory_may_go ? send_safely(ps, qp, &m, true) : send_record(ps, qp, &m, true);
}

/* Does the process there take messages of ours, and this QP datagrams? */
static inline bool takes_datagrams(const struct channel *ch, uint32_t qpn)
{
	return !ch->gone && (ch->is_loop || (ch->peer && shm_peer_reads(ch->shm) && !shm_is_held(ch->shm, qpn)));
}

bool direct_messages_send_datagram(void *peers, const struct route *r, const struct direct_message *m)
{
	const struct channel *ch = route_channel(r);
	size_t bytes = record_bytes(m);
	void *record = ch && takes_datagrams(ch, m->dest_qpn) ? shm_reserve(ch->shm, bytes) : NULL;

	if (!record)
		return false;
	record_build(m, record);
	commit(peers, ch, bytes);
	return true;
}

static bool read_own(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	(void)peer;
	(void)bytes;
	copy_scatter(iov, iovs, (const uint8_t *)(uintptr_t)address);
	return true;
}

static const struct rma_mover own_mover = { .read = read_own };

/* Our own memory is copied by the processor, which does not survive that the program unmaps it. */
static bool pull(const struct peers *ps, const struct channel *ch, const struct direct_message *m, uint32_t offset,
		 const struct iovec *to, unsigned tos)
{
	const struct rma_peer *peer;

	if (ch->is_loop)
		return !ps->ca->memory_may_go && record_pull(m, offset, &own_mover, NULL, to, tos);
	if (!ch->peer)
		return false;
	peer = peer_rma(ch->peer);
	return record_pull(m, offset, peer->mover, peer->arg, to, tos);
}

/* A QP that stops is hidden before its buffers are the program's again: what was read after that is not the message. */
bool direct_messages_pull(void *peers, struct qp *qp, const struct direct_message *m, uint32_t offset, const struct iovec *to,
			  unsigned tos)
{
	return direct_messages_connect(peers, qp) && pull(peers, qp->direct_path.channel, m, offset, to, tos) &&
	       direct_path_is_current(&qp->direct_path);
}

void direct_messages_publish(void *peers, struct qp *qp, psn_t received)
{
	struct peers *ps = peers;

	share_set_received(&ps->published.share, qp->published, received);
}

bool direct_messages_received(void *peers, struct qp *qp, psn_t *psn)
{
	struct peers *ps = peers;
	struct share_watch watch = watch_of(qp);

	/* a peer that stopped since has executed what it says all the same */
	if (qp->direct_path.channel && share_read_received(shown_by(ps, qp->direct_path.channel), &watch, psn))
		return true;
	if (!direct_messages_connect(ps, qp))
		return false;
	watch = watch_of(qp);
	return share_read_received(shown_by(ps, qp->direct_path.channel), &watch, psn);
}

static inline void note_executed(struct peers *ps, struct channel *ch)
{
	if (!ch->is_loop && !list_linked(&ch->link->acks_owed))
		list_append(&ps->links.acks_owed, &ch->link->acks_owed);
}

/* A short message of the peer of the QP it names, as most are. */
static inline bool deliver_short(struct peers *ps, const struct channel *ch, const void *record, size_t bytes)
{
	struct record_short m;

	return record_parse_short(&m, record, bytes) &&
	       ca_short_message(ps->ca, ch, m.dest_qpn, m.src_qpn, m.psn, m.received, m.promise, m.data, m.bytes, m.solicited);
}

/* Who hides a QP passes a full fence before it looks at its ring, we before we look at what it shows: either it finds what we
 * sent, or we find it hidden. */
bool direct_messages_stands(void *peers, struct qp *qp)
{
	const struct channel *ch = qp->direct_path.channel;

	(void)peers;
	atomic_thread_fence(memory_order_seq_cst);
	return ch && direct_path_is_current(&qp->direct_path) && !ch->gone &&
	       (ch->is_loop || (ch->peer && !peer_has_left(ch->peer)));
}

void direct_messages_keep_promise(void *peers, struct qp *qp)
{
	struct peers *ps = peers;
	const struct channel *ch = qp->direct_path.channel;
	uint8_t record[RING_MAX_RECORD];
	struct ring_consumer at;
	struct record_short m;
	uint32_t first;
	unsigned kind;
	size_t bytes;

	if (!ch)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	at = shm_oldest(ch->shm);
	first = at.head;
	/* a peer that breaks the rules of the ring fills it with what has no end */
	while (at.head - first < RING_LINES && (bytes = ring_take(&at, record, sizeof(record), &kind)))
		if (kind == SHM_MESSAGE && record_parse_short(&m, record, bytes) && m.dest_qpn == qp->qpn)
			(void)deliver_short(ps, ch, record, bytes);
}

static inline bool deliver_datagram(struct peers *ps, const struct channel *ch, struct direct_message *m)
{
	if (opcode_row(m->opcode)->service != SERVICE_UD)
		return false;
	m->datagram.origin = ch->link->origin;
	ca_message(ps->ca, ps->ca->now, ch, m);
	return true;
}

/* The same of a datagram where it lies. All that is before its payload is copied first, as its sender can change it. */
static bool take_datagram(struct peers *ps, const struct channel *ch, const uint8_t *record, size_t bytes)
{
	struct iovec iov[DIRECT_IOVS];
	struct direct_message m;
	uint8_t line[SHM_SHORT_BYTES];

	memcpy(line, record, sizeof(line));
	if (!record_is_datagram(line) || !record_parse(&m, line, bytes, iov))
		return false;
	iov->iov_base = (uint8_t *)(uintptr_t)record + ((uint8_t *)iov->iov_base - line);
	return deliver_datagram(ps, ch, &m);
}

bool direct_messages_take_short(struct peers *ps, struct channel *ch)
{
	size_t bytes;
	const void *record = shm_peek(ch->shm, &bytes);

	if (!record || !ps->ca->direct || !shown_by(ps, ch))
		return false;
	if (deliver_short(ps, ch, record, bytes))
		note_executed(ps, ch);
	else if (!take_datagram(ps, ch, record, bytes))
		return false;
	shm_took(ch->shm, bytes);
	return true;
}

bool direct_messages_deliver(struct peers *ps, struct channel *ch, const void *record, size_t bytes)
{
	struct iovec iov[DIRECT_IOVS];
	struct direct_message m;

	if (ps->ca->direct && deliver_short(ps, ch, record, bytes)) {
		note_executed(ps, ch);
		return false;
	}
	if (!ps->ca->direct || !shown_by(ps, ch) || !record_parse(&m, record, bytes, iov)) {
		ps->ca->counters.malformed++;
		return false;
	}
	if (deliver_datagram(ps, ch, &m))
		return false;
	ca_message(ps->ca, ps->ca->now, ch, &m);
	note_executed(ps, ch);
	return m.bytes >= DIRECT_SLICE;
}

void direct_messages_forget(struct peers *ps, const struct channel *ch)
{
	list_for_each(qp, &ps->ca->all_qps, struct qp, all)
		if (qp->direct_path.channel == ch)
			qp->direct_path = (struct direct_path){ 0 };
}
