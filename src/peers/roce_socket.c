#include "peers/roce_socket.h"

#include "base/log.h"
#include "control/limits.h"
#include "link/udp.h"
#include "link/udp_group.h"
#include "peers/peers.h"
#include "wire/addr.h"
#include "wire/header.h"
#include "wire/mtu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Our choices: a process that ends closes its socket some microseconds after weftd knows, or some milliseconds on a loaded host;
 * and who has the port otherwise keeps it for longer than that. */
enum { TRIES = 10 };

static const wtime FIRST_PAUSE = WTIME_MS, LATER = 20 * WTIME_MS, REFUSED_FOR = WTIME_S, REFUSED_MOST = 30 * WTIME_S;

void roce_socket_init(struct roce_socket *w, bool takes_all)
{
	*w = (struct roce_socket){ .fd = -1, .takes_all = takes_all, .ask_at = WTIME_NEVER };
}

/* ---- the link ---- */

static const struct ca_device *roce_port_device(const struct ca *ca)
{
	for (int i = 0; i < ca->devices; i++)
		if (device_has(&ca->dev[i], DEVICE_UDP))
			return &ca->dev[i];
	return NULL;
}

static void tell_narrow(void *owner, const struct packet_path *path, unsigned mtu_bytes)
{
	struct peers *ps = owner;

	(void)path;
	if (ps->roce.is_narrow)
		return;
	ps->roce.is_narrow = true;
	log_line(LOG_ERROR, "packets are too long for their way to another host, whose MTU is %u bytes: use a path MTU, and "
		 "datagrams, of at most %u", mtu_bytes, udp_payload_mtu(mtu_bytes));
}

static bool is_member(uint32_t member, uint32_t members)
{
	return member < members && members <= PAGE_SLOTS && !(members & (members - 1));
}

static void drop_link(struct peers *ps)
{
	struct roce_socket *w = &ps->roce;

	links_remove(&ps->links, w->link);
	w->fd = -1;
	w->link->ops->close(w->link);
	w->link = NULL;
}

/* A duplicate of the descriptor becomes the link's. Polls do not ask the kernel for it before something came or is to go. */
static int open_link(struct peers *ps, int fd, uint32_t member, uint32_t members)
{
	const struct ca_device *dev = roce_port_device(ps->ca);
	struct udp_config config = { .member = member, .members = members, .narrow = tell_narrow, .owner = ps };
	struct roce_socket *w = &ps->roce;
	int err;

	if (!dev)
		return -ENODEV;
	config.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (config.fd < 0)
		return -errno;
	config.device = dev->index;
	err = udp_open(&config, &w->link);
	if (err) {
		close(config.fd);
		return err;
	}
	w->fd = config.fd;
	err = links_add(&ps->links, w->link);
	if (!err) {
		if (!w->is_needed && w->link->ops->may_sleep(w->link, false))
			links_rest(&ps->links, w->link);
		return 0;
	}
	drop_link(ps);
	return err;
}

static void close_link(struct peers *ps)
{
	if (!ps->roce.link)
		return;
	roce_socket_count(ps, &ps->ca->counters);
	drop_link(ps);
	routes_change(&ps->ca->routes);
	ca_unblock(ps->ca);
}

void roce_socket_fini(struct peers *ps)
{
	close_link(ps);
}

void roce_socket_forget(struct roce_socket *w, bool consistent)
{
	if (w->link && consistent)
		w->link->ops->forget(w->link);
	else if (w->fd >= 0)
		close(w->fd);	/* the port is the parent's alone */
	w->link = NULL;
	w->fd = -1;
	w->state = ROCE_SOCKET_REFUSED;
}

void roce_socket_count(const struct peers *ps, struct counters *c)
{
	const struct link *l = ps->roce.link;
	const struct udp_counts *n = l ? udp_counts(l) : NULL;

	if (!n)
		return;
	c->icrc_errors += n->lost[UDP_UNSOUND];
	c->malformed += n->lost[UDP_MALFORMED];
	c->wire_too_big += n->lost[UDP_TOO_BIG];
	c->wire_refused += n->lost[UDP_REFUSED];
	c->wire_misrouted += n->lost[UDP_MISROUTED];
	c->wire_overruns += udp_overruns(l);
	c->wire_sent += n->sent;
	c->wire_received += n->received;
	c->wire_send_calls += n->send_calls;
	c->wire_receive_calls += n->receive_calls;
}

/* ---- what leads there ---- */

/* Addresses that are one host's, or one link's without telling which: no socket can be bound or sent to them from here. */
static bool stays_at_home(const uint8_t gid[16])
{
	static const uint8_t nobody[16], loopback[16] = { [15] = 1 };

	if (gid_is_ipv4(gid))
		return gid[12] == 0 || gid[12] == 127 || gid_is_ipv4_multicast(gid);
	return memcmp(gid, nobody, 16) == 0 || memcmp(gid, loopback, 16) == 0 || (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80) ||
	       gid_is_multicast(gid);
}

bool roce_socket_leads_to(const struct peers *ps, const struct ca_device *dev, const struct packet_path *path, bool is_port)
{
	if (dev != roce_port_device(ps->ca) || !path->has_grh || stays_at_home(path->dgid))
		return false;
	return !is_port || ps->roce.takes_all;
}

struct link *roce_socket_spreads(struct peers *ps, const struct ca_device *dev, const uint8_t sgid[16], const uint8_t mgid[16])
{
	if (dev != roce_port_device(ps->ca) || stays_at_home(sgid) || gid_is_ipv4(sgid) != gid_is_ipv4(mgid))
		return NULL;
	roce_socket_expect(ps, dev);
	return ps->roce.link;
}

int roce_socket_source(const uint8_t dgid[16], uint8_t sgid[16])
{
	return stays_at_home(dgid) || udp_source(dgid, sgid) ? -ENETUNREACH : 0;
}

int roce_socket_path_mtu(const struct packet_path *path)
{
	int bytes = udp_path_mtu(path->sgid, path->dgid);
	unsigned payload = bytes > 0 ? udp_payload_mtu((unsigned)bytes) : 0;

	for (int mtu = IBV_MTU_256; payload && mtu <= IBV_MTU_4096; mtu++)
		if (mtu_bytes((unsigned)mtu) == payload)
			return mtu;
	return 0;
}

bool roce_socket_comes(struct peers *ps)
{
	roce_socket_need(ps);
	return ps->roce.state == ROCE_SOCKET_CLOSED || ps->roce.state == ROCE_SOCKET_ASKED;
}

/* ---- asking weftd ---- */

static const char *advice_of(int refusal)
{
	switch (refusal) {
	case EOPNOTSUPP:
		return "this weftd serves several users, who could take each other's packets: use weft run without --system";
	case EPERM:
		return "a process that has it does not trust this one, as it is in another container or another user's: end that "
		       "one, or run both alike, or use weftd --memory=user";
	case EBUSY:
		return "255 processes of this weftd have it: end some, or use another network namespace";
	case EXDEV:
		return "this program is in another network namespace than weftd: give it a WEFT_DIR of its own";
	case ENOTCONN:
		return "weftd does not take this program back: start the program again";
	default:
		return NULL;
	}
}

void roce_socket_tell(int refusal)
{
	const char *advice = advice_of(refusal);
	char holder[200];

	if (refusal == EADDRINUSE) {
		udp_port_holder(ROCE_PORT, holder, sizeof(holder));
		advice = holder;
	}
	if (advice)
		log_line(LOG_ERROR, "no way to other hosts: %s", advice);
	else
		log_line(LOG_ERROR, "no way to other hosts: UDP port %u: %s%s; see weft doctor", ROCE_PORT, strerror(refusal),
			 limits_advice(refusal));
}

void roce_socket_told(struct roce_socket *w)
{
	w->is_telling = false;
}

bool roce_socket_is_undecided(const struct roce_socket *w)
{
	return w->state == ROCE_SOCKET_ASKED || w->is_telling || (w->state == ROCE_SOCKET_CLOSED && w->tries);
}

/* True: it is to be told. Packets that waited are lost. */
static bool refuse(struct peers *ps)
{
	struct roce_socket *w = &ps->roce;
	bool is_new = w->is_needed && !w->is_told;

	w->state = ROCE_SOCKET_REFUSED;
	w->pause = w->pause ? wtime_min(2 * w->pause, REFUSED_MOST) : REFUSED_FOR;
	w->ask_at = ps->ca->now + w->pause;
	w->tries = 0;
	w->is_told |= w->is_needed;
	ca_unblock(ps->ca);
	return is_new;
}

/* While weftd is away, or does not read, it is asked later. */
static void ask(struct peers *ps, wtime now)
{
	struct control_msg msg = { .type = CTL_ROCE_SOCKET };
	struct roce_socket *w = &ps->roce;
	int err = session_ask(ps->session, &msg);

	if (err && w->state == ROCE_SOCKET_REFUSED) {	/* nobody waits for it */
		w->ask_at = now + REFUSED_FOR;
		return;
	}
	w->state = err ? ROCE_SOCKET_CLOSED : ROCE_SOCKET_ASKED;
	w->ask_at = err ? now + LATER : WTIME_NEVER;
}

/* The sockets are of the network namespace that weftd is in, and those that this process opens beside them of its own. */
static bool is_at_home(const struct peers *ps)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) == 0 && st.st_ino == ps->page->home;
}

/* weftd cannot be asked from here, or never again: what it would say. 0: it can. */
static int obstacle(const struct peers *ps)
{
	if (atomic_load(&ps->session->state) == SESSION_OVER)
		return ENOTCONN;
	return is_at_home(ps) ? 0 : EXDEV;
}

static void want(struct peers *ps)
{
	const struct roce_socket *w = &ps->roce;
	wtime now = ps->ca->now;
	int refusal;
	bool is_due = w->state == ROCE_SOCKET_REFUSED && (now >= w->ask_at || (w->is_needed && !w->is_told));

	if (ps->in_forked_child || (!is_due && (w->state != ROCE_SOCKET_CLOSED || w->ask_at != WTIME_NEVER)))
		return;
	refusal = obstacle(ps);
	if (!refusal)
		ask(ps, now);
	else if (refuse(ps))
		roce_socket_tell(refusal);
}

void roce_socket_need(struct peers *ps)
{
	ps->roce.is_needed = true;
	if (ps->roce.state != ROCE_SOCKET_OPEN)
		want(ps);
	else
		links_watch(&ps->links, ps->roce.link);
}

void roce_socket_expect(struct peers *ps, const struct ca_device *dev)
{
	if (dev == roce_port_device(ps->ca))
		want(ps);
}

/* True: it was for the moment, and is asked again. */
static bool try_later(struct roce_socket *w, int refusal, wtime now)
{
	if (refusal != EAGAIN && (refusal != EADDRINUSE || w->tries == TRIES))
		return false;
	w->state = ROCE_SOCKET_CLOSED;
	w->ask_at = refusal == EAGAIN ? now + LATER : now + (FIRST_PAUSE << w->tries++);
	return true;
}

bool roce_socket_answered(struct peers *ps, struct mail *mail)
{
	const struct control_msg *msg = &mail->msg;
	struct roce_socket *w = &ps->roce;

	if (w->state != ROCE_SOCKET_ASKED)
		return false;
	if (msg->status && try_later(w, msg->status, ps->ca->now))
		return false;
	if (!msg->status && (mail->fds != 1 || !is_member(msg->a, msg->b)))
		mail->msg.status = EPROTO;
	if (!msg->status)
		mail->msg.status = -open_link(ps, mail->fd[0], msg->a, msg->b);
	if (msg->status)
		return w->is_telling = refuse(ps);
	w->state = ROCE_SOCKET_OPEN;
	w->tries = 0;
	w->pause = 0;
	w->is_told = false;
	routes_change(&ps->ca->routes);
	ca_unblock(ps->ca);
	return false;
}

void roce_socket_lost(struct peers *ps)
{
	struct roce_socket *w = &ps->roce;

	if (w->state == ROCE_SOCKET_OPEN)
		w->is_left = true;
	if (w->state == ROCE_SOCKET_ASKED || w->state == ROCE_SOCKET_REFUSED)
		w->ask_at = ps->ca->now;
	if (w->state == ROCE_SOCKET_ASKED)
		w->state = ROCE_SOCKET_CLOSED;
	w->pause = 0;
}

/* The next weftd has the port once this and all others are closed. */
static void give_up_old(struct peers *ps)
{
	struct roce_socket *w = &ps->roce;

	if (!w->is_left || atomic_load(&ps->session->state) != SESSION_ATTACHED)
		return;
	w->is_left = false;
	close_link(ps);
	w->state = ROCE_SOCKET_CLOSED;
	w->ask_at = ps->ca->now;
}

wtime roce_socket_ask_again(struct peers *ps, wtime now)
{
	struct roce_socket *w = &ps->roce;

	give_up_old(ps);
	if (w->state == ROCE_SOCKET_ASKED && atomic_load(&ps->session->state) == SESSION_OVER)
		refuse(ps);
	if ((w->state == ROCE_SOCKET_CLOSED || w->state == ROCE_SOCKET_REFUSED) && w->ask_at <= now) {
		if (obstacle(ps))
			refuse(ps);
		else
			ask(ps, now);
	}
	return w->state == ROCE_SOCKET_CLOSED || w->state == ROCE_SOCKET_REFUSED ? w->ask_at : WTIME_NEVER;
}
