/* Another path for a connection: LAP asks for it, APR answers (IBA 12.8). The two are an exchange of their own within
 * ESTABLISHED, with a transaction id of its own: the message that waits for its answer and the timer are those of the
 * conversation, which needs neither in this state. Which QP uses the path is the consumer's business. */
#include "mgmt/cm_id.h"
#include "mgmt/cm_send.h"

#include <errno.h>
#include <string.h>

static bool is_same_path(const struct cm_path *a, const struct cm_path *b)
{
	return a->slid == b->slid && a->dlid == b->dlid && memcmp(a->sgid, b->sgid, 16) == 0 && memcmp(a->dgid, b->dgid, 16) == 0;
}

static bool is_asking(const struct cm_id *id)
{
	return id->alt == CM_ALT_LAP_SENT || id->alt == CM_ALT_MRA_RECEIVED;
}

int cm_lap(struct cm_id *id, wtime now, const struct cm_path *alternate, const void *private_data, uint32_t bytes)
{
	struct cm_msg msg = { .attribute = CM_LAP };
	struct cm_lap *lap = &msg.lap;

	if (id->state != CM_ESTABLISHED || is_asking(id) || id->alt == CM_ALT_LAP_RECEIVED || bytes > sizeof(lap->private_data) ||
	    alternate->device != id->path.device)
		return -EINVAL;
	lap->local_comm_id = id->local_id;
	lap->remote_comm_id = id->remote_id;
	lap->remote_qpn = id->remote_qpn;
	lap->remote_cm_response_timeout = id->cm->response_timeout;
	cm_put_path(&lap->alternate, alternate);
	if (bytes)
		memcpy(lap->private_data, private_data, bytes);
	id->alt = CM_ALT_LAP_SENT;
	id->alternate_is = CM_ALTERNATE_NONE;
	id->alternate = *alternate;
	id->alt_tid = rand_u64(&id->cm->rand);
	cm_send_until_answered(id, now, &msg);
	return 0;
}

static void answer(struct cm_id *id, uint8_t status, const void *private_data, uint32_t bytes)
{
	struct cm_msg msg = { .attribute = CM_APR, .apr = { .local_comm_id = id->local_id, .remote_comm_id = id->remote_id,
							    .status = status } };

	if (bytes)
		memcpy(msg.apr.private_data, private_data, bytes);
	cm_send_kept(id, &msg);
	id->alt = CM_ALT_ANSWERED;
	id->alternate_is = status == CM_APR_SUCCESS ? CM_ALTERNATE_AGREED : CM_ALTERNATE_NONE;
}

int cm_apr(struct cm_id *id, uint8_t status, const void *private_data, uint32_t bytes)
{
	if (id->state != CM_ESTABLISHED || id->alt != CM_ALT_LAP_RECEIVED || bytes > sizeof((struct cm_apr){ 0 }.private_data))
		return -EINVAL;
	answer(id, status, private_data, bytes);
	return 0;
}

static void refuse(struct cm_id *id, const struct gmp *in, const struct cm_msg *msg, enum cm_apr_status status)
{
	struct cm_msg apr = { .attribute = CM_APR, .tid = msg->tid, .apr = { .local_comm_id = id->local_id,
			      .remote_comm_id = id->remote_id, .status = status } };

	cm_send_back(id->cm, in, &apr);
}

struct cm_path cm_alternate_seen_here(const struct cm_id *id, const struct cm_req_path *from)
{
	struct cm_path path = cm_path_seen_here(from);

	path.device = id->path.device;
	path.pkey = id->path.pkey;
	path.mtu = id->path.mtu;
	return path;
}

static enum cm_lap_verdict lap_again(struct cm_id *id)
{
	if (id->alt == CM_ALT_LAP_RECEIVED)
		cm_send_mra(id, CM_ANSWERS_OTHER);
	else
		cm_send_again(id);
	return CM_LAP_AGAIN;
}

enum cm_lap_verdict cm_take_lap(struct cm_id *id, const struct gmp *in, const struct cm_msg *msg)
{
	struct cm_path path = cm_alternate_seen_here(id, &msg->lap.alternate);

	if (is_asking(id)) {	/* both ask at once, and only one path can be loaded: our choice: neither is */
		refuse(id, in, msg, CM_APR_REJECT);
		return CM_LAP_REFUSED;
	}
	if (id->alt != CM_ALT_NONE && msg->tid == id->alt_tid)
		return lap_again(id);
	if (id->alt == CM_ALT_LAP_RECEIVED)	/* another one, before the consumer has answered the first */
		return CM_LAP_REFUSED;
	if (msg->lap.remote_qpn != id->local_qpn) {
		refuse(id, in, msg, CM_APR_INVALID_QPN);
		return CM_LAP_REFUSED;
	}
	if (is_same_path(&path, &id->path)) {
		refuse(id, in, msg, CM_APR_IS_CURRENT);
		return CM_LAP_REFUSED;
	}
	id->alt = CM_ALT_LAP_RECEIVED;
	id->alt_tid = msg->tid;
	id->alternate = path;
	id->alternate_is = CM_ALTERNATE_NONE;
	return CM_LAP_TAKEN;
}

bool cm_take_apr(struct cm_id *id, const struct cm_msg *msg)
{
	if (!is_asking(id) || msg->tid != id->alt_tid)
		return false;
	cm_set_timer(id, WTIME_NEVER);
	id->alt = CM_ALT_NONE;
	id->alternate_is = msg->apr.status == CM_APR_SUCCESS ? CM_ALTERNATE_AGREED : CM_ALTERNATE_NONE;
	return true;
}

bool cm_take_lap_mra(struct cm_id *id, const struct cm_msg *msg)
{
	if (id->state != CM_ESTABLISHED || !is_asking(id) || msg->tid != id->alt_tid)
		return false;
	id->alt = CM_ALT_MRA_RECEIVED;
	return true;
}

void cm_give_up_lap(struct cm_id *id)
{
	weft_bug_on(!is_asking(id));
	cm_set_timer(id, WTIME_NEVER);
	id->alt = CM_ALT_NONE;
}

int cm_migrated(struct cm_id *id)
{
	struct cm_path left = id->path;

	if (id->state != CM_ESTABLISHED || id->alternate_is != CM_ALTERNATE_AGREED)
		return -EINVAL;
	id->path = id->alternate;
	id->to = cm_mad_path(&id->path);
	id->alternate = left;
	id->alternate_is = CM_ALTERNATE_LEFT;
	cm_note_again(id);
	return 0;
}
