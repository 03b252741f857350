#include "weftd/captures.h"

#include "base/log.h"
#include "weftd/impairs.h"
#include "weftd/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 8 };	/* our choice, of one connection: to look at processes costs weftd time */

static bool is_meant(const struct client *c, uint32_t pid)
{
	return c->kind == CLIENT_PROCESS && (!pid || (uint32_t)c->pid == pid);
}

static bool may_capture(const struct hub *h, const struct client *by, const struct client *c)
{
	return is_meant(c, by->capture_pid) && !c->captured_by && trust_allows(h, c, by);
}

static void begin(struct hub *h, struct client *by, struct client *c)
{
	struct control_msg msg = { .type = CTL_CAPTURE, .slot = (uint32_t)c->pid };
	int end[2];

	if (pipe2(end, O_CLOEXEC | O_NONBLOCK)) {
		msg.status = errno;
		log_line(LOG_WARNING, "process %d is not captured: %s", (int)c->pid, strerror(errno));
		h->ops->send(h, by, &msg, NULL, NULL, 0);
		return;
	}
	c->captured_by = by;
	impairs_want_packets(h, c, PAGE_CAPTURED, true);
	h->ops->send(h, by, &msg, NULL, &end[0], 1);
	h->ops->send(h, c, &msg, NULL, &end[1], 1);
	close(end[0]);
	close(end[1]);
}

static void end(struct hub *h, struct client *c)
{
	struct control_msg msg = { .type = CTL_CAPTURE };

	c->captured_by = NULL;
	impairs_want_packets(h, c, PAGE_CAPTURED, false);
	h->ops->send(h, c, &msg, NULL, NULL, 0);
}

/* How many can be captured. *err says why it is none; of all, there may be some later. */
static uint32_t count(const struct hub *h, const struct client *by, int *err)
{
	uint32_t n = 0;

	*err = by->capture_pid ? ENOENT : 0;
	list_for_each(c, &h->clients, struct client, node) {
		if (may_capture(h, by, c))
			n++;
		else if (by->capture_pid && is_meant(c, by->capture_pid))
			*err = c->captured_by ? EBUSY : EPERM;
	}
	return n;
}

void captures_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int err;

	if (c->captures || c->capture_tries++ >= TRIES) {
		hub_answer(h, c, msg, EINVAL);
		return;
	}
	c->capture_pid = msg->slot;
	answer.b = count(h, c, &err);
	c->captures = answer.b || !err;
	hub_answer(h, c, &answer, c->captures ? 0 : err);
	list_for_each(other, &h->clients, struct client, node) {
		if (c->captures && may_capture(h, c, other))
			begin(h, c, other);
	}
	impairs_expire(h);
}

void captures_join(struct hub *h, struct client *c)
{
	list_for_each(by, &h->clients, struct client, node) {
		if (by->captures && may_capture(h, by, c))
			begin(h, by, c);
	}
	impairs_expire(h);
}

void captures_leave(struct hub *h, struct client *c)
{
	c->captured_by = NULL;
	if (!c->captures)
		return;
	c->captures = false;
	list_for_each(other, &h->clients, struct client, node) {
		if (other->captured_by != c)
			continue;
		end(h, other);
		captures_join(h, other);
	}
	impairs_expire(h);
}

void captures_start(struct hub *h)
{
	for (uint32_t i = 1; i < PAGE_SLOTS; i++)
		atomic_fetch_and(&h->page->slot_packets[i], (uint8_t)~PAGE_CAPTURED);
}
