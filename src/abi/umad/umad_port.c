/* A port that a program has opened is a connection with weftd: the number it gets is that of the socket, which is readable when a
 * datagram has come. weftd forgets the port when the last process has closed the socket. Agents are registered by a second
 * connection, so that the answer is not among datagrams. Where weftd ends, umad_return.c leads the port to the next one. */
#include "abi/umad/umad_port.h"

#include "abi/umad/umad_epoll.h"
#include "abi/umad/umad_sysfs.h"

#include "control/connect.h"
#include "control/message.h"
#include "wire/mad.h"
#include "wire/sa.h"
#include "weft/weft.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_BYTES = 256 };		/* of a datagram's room: umad_recv(3) */
enum { GIVEN_BACK = 4 };		/* datagrams, by one message: our choice, a quarter of an agent's receive buffers */

static struct port *ports;		/* owned */
static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER;

static struct port *port_get(int fd)
{
	struct port *p;

	pthread_mutex_lock(&ports_lock);
	for (p = ports; p && p->fd != fd;)
		p = p->next;
	if (p)
		p->users++;
	pthread_mutex_unlock(&ports_lock);
	return p;
}

static void port_put(struct port *p)
{
	bool is_last;

	pthread_mutex_lock(&ports_lock);
	is_last = --p->users == 0;
	pthread_mutex_unlock(&ports_lock);
	if (!is_last)
		return;
	requests_fini(p);
	pthread_mutex_destroy(&p->reading);
	pthread_mutex_destroy(&p->sending);
	pthread_mutex_destroy(&p->books);
	free(p);
}

bool port_move(struct port *p, int from)
{
	struct epoll_watch watches[EPOLL_WATCHES];
	bool is_there;
	int n;

	pthread_mutex_lock(&ports_lock);
	is_there = false;
	for (const struct port *at = ports; at && !is_there; at = at->next)
		is_there = at == p;
	if (is_there) {
		n = epoll_watches_take(p->fd, watches);
		dup3(from, p->fd, O_CLOEXEC);
		epoll_watches_put(p->fd, watches, n);
	}
	pthread_mutex_unlock(&ports_lock);
	return is_there;
}

/* ---- opening ---- */

static int open_port(const char *ca_name, int portnum, enum umad_interface interface)
{
	char name[UMAD_NAME];
	int number = umad_resolve(ca_name, portnum, interface, name);
	struct port *p;

	if (number < 0)
		return number;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	memcpy(p->name, name, sizeof(p->name));
	p->number = number;
	p->fd = umad_file_open(name, number, UMAD_GIVES_BACK, &p->file);
	if (p->fd < 0) {
		free(p);
		return -EIO;
	}
	p->users = 1;
	requests_init(p);
	pthread_mutex_init(&p->reading, NULL);
	pthread_mutex_init(&p->sending, NULL);
	pthread_mutex_init(&p->books, NULL);
	pthread_mutex_lock(&ports_lock);
	p->next = ports;
	ports = p;
	pthread_mutex_unlock(&ports_lock);
	return p->fd;
}

UMAD_EXPORT int umad_open_port(const char *ca_name, int portnum)
{
	return open_port(ca_name, portnum, UMAD_GSI);
}

/* A port that is named is opened whatever it has, as in rdma-core: the interface counts for a choice. */
UMAD_EXPORT int umad_open_smi_port(const char *ca_name, int portnum)
{
	return open_port(ca_name, portnum, UMAD_SMI);
}

/* What opening issmN comes to: the port is a subnet manager's until the descriptor is closed. A descriptor, or -1 and errno. */
UMAD_EXPORT int weft_umad_issm_open(const char *ca_name, int portnum);
int weft_umad_issm_open(const char *ca_name, int portnum)
{
	struct umad_file file;
	int fd = umad_file_open(ca_name, portnum, UMAD_IS_SM | UMAD_GIVES_BACK, &file);

	if (fd >= 0) {
		issm_note(fd, ca_name, portnum);
		return fd;
	}
	errno = -fd;
	return -1;
}

static struct port *take_out(int fd)
{
	struct port *p = NULL;

	pthread_mutex_lock(&ports_lock);
	for (struct port **at = &ports; *at; at = &(*at)->next) {
		if ((*at)->fd != fd)
			continue;
		p = *at;
		*at = p->next;
		break;
	}
	pthread_mutex_unlock(&ports_lock);
	return p;
}

/* Of a number that is no port the stock library closes the descriptor, and says so never. */
UMAD_EXPORT int umad_close_port(int portid)
{
	struct port *p = take_out(portid);

	if (p)
		port_put(p);
	close(portid);
	return 0;
}

UMAD_EXPORT int umad_get_fd(int portid)
{
	return portid;
}

/* ---- agents ---- */

int port_ask_about_agent(const struct port *p, struct control_msg *msg, const struct control_agent *agent)
{
	int fd = connect_as(umad_dir(), CONTROL_COMMAND), err;

	if (fd < 0)
		return fd;
	msg->type = CTL_MAD_AGENT;
	memcpy(msg->gid, p->file.secret, sizeof(msg->gid));
	msg->text_bytes = agent ? sizeof(*agent) : 0;
	err = connect_ask(fd, msg, agent);
	close(fd);
	return !err && msg->b >= CONTROL_AGENTS ? -EPROTO : err;
}

/* A number that none of the port's agents has; there is one, as weftd gives no more. `sending` is held. */
static uint32_t free_number(const struct port *p)
{
	uint32_t i = 0;

	while (i < UMAD_AGENTS - 1 && p->agents >> i & 1)
		i++;
	return i;
}

void port_end_agent(struct port *p, uint32_t agent)
{
	p->agents &= ~(1u << agent);
	requests_forget(p, agent);
}

/* What weftd has agreed to. `sending` is held. */
static void note_agent(struct port *p, struct control_msg *msg, const struct control_agent *agent, int agentid)
{
	uint32_t number = agent ? free_number(p) : (uint32_t)agentid;

	if (agent) {
		p->agent[number].what = *agent;
		p->agent[number].id = msg->b;
		p->agent[number].own = msg->service;
		p->agent[number].buffers = 0;
		p->agents |= 1u << number;
	} else if (msg->a == 1) {
		port_end_agent(p, number);
	} else {
		p->agent[number].buffers += (int)msg->service;
	}
	msg->b = number;
}

/* Before what calls for it is sent, or who serves is known. */
static void expect_long(struct port *p)
{
	pthread_mutex_lock(&p->reading);
	p->has_long = true;
	pthread_mutex_unlock(&p->reading);
}

/* As port_ask_about_agent, also where weftd has ended, and with the program's numbers. `sending` is not held. */
static int ask(struct port *p, struct control_msg *msg, const struct control_agent *agent, int agentid)
{
	const struct control_msg question = *msg;
	uint32_t service;
	unsigned era;
	int err;

	if (agent && agent->rmpp_version && (agent->methods[0] || agent->methods[1]))
		expect_long(p);
	do {
		pthread_mutex_lock(&p->sending);
		era = p->era;
		*msg = question;
		if (agent)
			msg->service = p->own;
		else
			msg->b = p->agent[agentid].id;
		service = msg->service;
		err = port_ask_about_agent(p, msg, agent);
		msg->a = question.a;
		msg->service = service;
		if (!err)
			note_agent(p, msg, agent, agentid);
		pthread_mutex_unlock(&p->sending);
	} while (err && port_is_over(p->fd) && !port_return(p, era));
	return err;
}

/* The agent's number or -errno. */
static int add_agent(int portid, const struct control_agent *agent)
{
	struct port *p = port_get(portid);
	struct control_msg msg = { .a = 0 };
	int err = p ? ask(p, &msg, agent, 0) : -EINVAL;

	if (p)
		port_put(p);
	return err ? err : (int)msg.b;
}

static bool has_oui(int mgmt_class)
{
	return mgmt_class >= 0x30 && mgmt_class <= 0x4f;	/* IBA 13.4.4 */
}

/* Any failure but a caller's is the same to callers: umad_register(3). */
static int register_agent(int portid, struct control_agent *agent, const long *method_mask)
{
	int id;

	if (method_mask)
		memcpy(agent->methods, method_mask, sizeof(agent->methods));
	id = add_agent(portid, agent);
	return id < 0 ? -EPERM : id;
}

UMAD_EXPORT int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
			      long method_mask[16 / sizeof(long)])
{
	struct control_agent agent = { .mgmt_class = (uint8_t)mgmt_class, .class_version = (uint8_t)mgmt_version,
				       .rmpp_version = rmpp_version, .oui = 0x1405 /* OpenIB's */ };

	return register_agent(portid, &agent, method_mask);
}

UMAD_EXPORT int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
				  long method_mask[16 / sizeof(long)])
{
	struct control_agent agent = { .mgmt_class = (uint8_t)mgmt_class, .class_version = 1, .rmpp_version = rmpp_version };

	if (!has_oui(mgmt_class))
		return -EINVAL;
	agent.oui = (uint32_t)oui[0] << 16 | (uint32_t)oui[1] << 8 | oui[2];
	return register_agent(portid, &agent, method_mask);
}

UMAD_EXPORT int umad_register2(int portid, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	struct control_agent agent;
	int id;

	if (!attr || !agent_id)
		return EINVAL;
	if (attr->flags & ~(uint32_t)UMAD_USER_RMPP) {
		attr->flags = UMAD_USER_RMPP;
		return EINVAL;
	}
	agent = (struct control_agent){ .mgmt_class = attr->mgmt_class, .class_version = attr->mgmt_class_version,
					.rmpp_version = attr->rmpp_version, .is_user_rmpp = attr->flags & UMAD_USER_RMPP,
					.oui = attr->oui, .methods = { attr->method_mask[0], attr->method_mask[1] } };
	id = add_agent(portid, &agent);
	if (id < 0)
		return -id;
	*agent_id = (uint32_t)id;
	return 0;
}

/* Any values. */
static bool has_agent(const struct port *p, int agentid)
{
	return p && agentid >= 0 && agentid < UMAD_AGENTS && p->agents >> agentid & 1;
}

static int end_or_change(struct port *p, int agentid, struct control_msg *msg)
{
	if (!p || agentid < 0 || agentid >= UMAD_AGENTS)
		return -EINVAL;
	return has_agent(p, agentid) ? ask(p, msg, NULL, agentid) : -ENOENT;
}

UMAD_EXPORT int umad_unregister(int portid, int agentid)
{
	struct port *p = port_get(portid);
	struct control_msg msg = { .a = 1 };
	int err = end_or_change(p, agentid, &msg);

	if (p)
		port_put(p);
	return err;
}

/* Of agents that are registered from now on (GSA-10). */
static int set_own(struct port *p, int number)
{
	if (!p || number < 0)
		return -EINVAL;
	pthread_mutex_lock(&p->sending);
	p->own = (uint32_t)number;
	pthread_mutex_unlock(&p->sending);
	return 0;
}

UMAD_EXPORT int weft_umad_buffers(int portid, int agentid, int more)
{
	struct port *p = port_get(portid);
	struct control_msg msg = { .a = 2, .service = (uint32_t)more };
	int err = agentid == -1 ? set_own(p, more) : end_or_change(p, agentid, &msg);

	if (p)
		port_put(p);
	return err;
}

/* ---- sending ---- */

static void fill_head(struct control_mad *head, const struct ib_user_mad *mad)
{
	const struct ib_mad_addr *a = &mad->addr;

	*head = (struct control_mad){
		.agent = mad->agent_id, .timeout_ms = mad->timeout_ms, .retries = mad->retries,
		.qpn = be32toh(a->qpn), .qkey = be32toh(a->qkey), .flow_label = be32toh(a->flow_label),
		.lid = be16toh(a->lid), .pkey_index = a->pkey_index, .sl = a->sl, .path_bits = a->path_bits,
		.has_grh = a->grh_present, .gid_index = a->gid_index, .hop_limit = a->hop_limit, .tclass = a->traffic_class,
	};
	memcpy(head->gid, a->gid, sizeof(head->gid));
}

int port_send_pieces(int fd, struct control_mad *head, const uint8_t *data, uint32_t read)
{
	uint8_t text[sizeof(*head) + CONTROL_MAD_PIECE];
	int err = 0;

	do {
		uint32_t left = head->total - head->at, bytes = left < CONTROL_MAD_PIECE ? left : CONTROL_MAD_PIECE;
		struct control_msg msg = { .type = CTL_MAD, .a = head->at ? 0 : read,
					  .text_bytes = (uint32_t)sizeof(*head) + bytes };

		memcpy(text, head, sizeof(*head));
		memcpy(text + sizeof(*head), data + head->at, bytes);
		err = message_send(fd, &msg, (char *)text, NULL, 0, 0);
		head->at += bytes;
	} while (!err && head->at < head->total);
	return err;
}

/* What awaits an answer is kept before it is sent: the answer may be here first. The agent may have gone since it was looked at,
 * and weftd's number of it be another one's. */
static int send_once(struct port *p, int agentid, const struct control_mad *head, const uint8_t *data, unsigned *era,
		     bool *is_kept)
{
	struct control_mad own = *head;
	int err;

	pthread_mutex_lock(&p->sending);
	if (!has_agent(p, agentid)) {
		pthread_mutex_unlock(&p->sending);
		return -EINVAL;
	}
	*era = p->era;
	*is_kept = requests_keep(p, &own, data);
	own.agent = p->agent[agentid].id;
	err = port_send_pieces(p->fd, &own, data, atomic_exchange(&p->read[agentid], 0));
	if (err && *is_kept && !message_peer_ended(err))
		requests_end(p, (uint32_t)agentid, data);
	pthread_mutex_unlock(&p->sending);
	return err;
}

/* What was kept has been sent by the return, unless the agent has gone there. */
static int send_out(struct port *p, int agentid, const struct control_mad *head, const uint8_t *data)
{
	unsigned era = 0;
	bool is_kept = false;
	int err = send_once(p, agentid, head, data, &era, &is_kept);

	if (!message_peer_ended(err))
		return err;
	if (port_return(p, era)) {
		if (is_kept)
			requests_end(p, (uint32_t)agentid, data);
		return err;
	}
	return is_kept && has_agent(p, agentid) ? 0 : send_once(p, agentid, head, data, &era, &is_kept);
}

/* A request to agents or managers was sent, which only a fabric has: says once that nobody will answer. */
static void tell_of_silence(const uint8_t *data)
{
	static bool told;
	const char *node = getenv("WEFT_NODE");
	struct mad_header h;
	bool is_for_agents;

	mad_header_parse(&h, data);
	is_for_agents = h.mgmt_class == MAD_CLASS_SUBN_LID || h.mgmt_class == MAD_CLASS_SUBN_DIRECTED ||
			h.mgmt_class == MAD_CLASS_SA || h.mgmt_class == MAD_CLASS_PERF;
	if (!is_for_agents || h.method & MAD_RESPONSE || (node && *node))
		return;
	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		dprintf(STDERR_FILENO, "weft: %s asks agents of a fabric, and there is none here; weft-fabric(1) says how to "
			"load one, and weft run --node HOST starts programs in it\n", program_invocation_short_name);
}

/* Is one MAD all that can come as an answer? Of subnet administration to these (IBA 15.2.2); of others nobody knows. */
static bool has_short_answer(const struct port *p, int agentid, const uint8_t *data, int length)
{
	struct mad_header h;

	if (!p->agent[agentid].what.rmpp_version)
		return true;
	if (length < MAD_HEADER_BYTES)
		return false;
	mad_header_parse(&h, data);
	return h.mgmt_class == MAD_CLASS_SA && (h.method == MAD_GET || h.method == MAD_SET || h.method == SA_DELETE ||
						h.method == MAD_REPORT_RESP);
}

UMAD_EXPORT int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	struct ib_user_mad *mad = umad;
	struct port *p = port_get(portid);
	struct control_mad head;
	int err = -EIO;

	mad->timeout_ms = (uint32_t)timeout_ms;
	mad->retries = (uint32_t)retries;
	mad->agent_id = (uint32_t)agentid;
	fill_head(&head, mad);
	head.total = (uint32_t)length;
	if (has_agent(p, agentid) && length > 0 && length <= CONTROL_MAD_MOST) {
		if (timeout_ms > 0)
			p->told_by = umad_now_ms() + (uint64_t)timeout_ms * (1 + (uint64_t)mad->retries) + TOLD_LATE;
		if (!has_short_answer(p, agentid, mad->data, length))
			expect_long(p);
		err = send_out(p, agentid, &head, mad->data);
	}
	if (p)
		port_put(p);
	if (!err && length >= MAD_HEADER_BYTES)
		tell_of_silence(mad->data);
	if (!err)
		return 0;
	errno = p && err == -EIO ? EINVAL : -err;
	return -EIO;
}

/* ---- receiving ---- */

/* 0, -ETIMEDOUT, -EIO. Signals do not shorten the time. */
static int wait_for(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += timeout_ms / 1000;
	end.tv_nsec += timeout_ms % 1000 * 1000000L;
	for (;;) {
		int n = poll(&p, 1, timeout_ms);

		if (n > 0)
			return p.revents == POLLIN || p.revents == (POLLIN | POLLHUP) ? 0 : -EIO;
		if (n == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -EIO;
		if (timeout_ms < 0)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &now);
		timeout_ms = (int)((end.tv_sec - now.tv_sec) * 1000 + (end.tv_nsec - now.tv_nsec + 999999) / 1000000);
		if (timeout_ms < 0)
			timeout_ms = 0;
	}
}

/* Programs wait as long as their request has time, and ask again when they are told that it is over. The kernel's timer starts
 * before their wait, so they are told in time. weftd's starts after it: the wait goes on until weftd's word is here. */
static int wait_at(struct port *p, int timeout_ms)
{
	int result = wait_for(p->fd, timeout_ms);
	uint64_t now, by;

	if (result != -ETIMEDOUT || !timeout_ms)
		return result;
	now = umad_now_ms();
	by = p->told_by;
	return by > now && by - now <= TOLD_LATE ? wait_for(p->fd, (int)(by - now)) : result;
}

UMAD_EXPORT int umad_poll(int portid, int timeout_ms)
{
	struct port *p = port_get(portid);
	int result;

	if (!p)
		return wait_for(portid, timeout_ms);
	result = wait_at(p, timeout_ms);
	port_put(p);
	return result;
}

struct letter {
	struct control_msg msg;
	struct control_mad head;
};

/* Looks at what comes next, which stays. flags: MSG_DONTWAIT or 0. */
static int peek(int fd, struct letter *l, int flags)
{
	ssize_t n = recv(fd, l, sizeof(*l), MSG_PEEK | flags);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EWOULDBLOCK : -EIO;
	return n == sizeof(*l) && l->msg.type == CTL_MAD && l->head.total <= CONTROL_MAD_MOST ? 0 : -EIO;
}

static void fill_mad(struct ib_user_mad *mad, const struct control_mad *head)
{
	struct ib_mad_addr *a = &mad->addr;

	mad->agent_id = head->agent;
	mad->status = head->status;
	mad->timeout_ms = head->timeout_ms;
	mad->retries = head->retries;
	mad->length = (uint32_t)sizeof(*mad) + head->total;
	*a = (struct ib_mad_addr){
		.qpn = htobe32(head->qpn), .qkey = htobe32(head->qkey), .lid = htobe16(head->lid), .sl = head->sl,
		.path_bits = head->path_bits, .grh_present = head->has_grh, .gid_index = head->gid_index,
		.hop_limit = head->hop_limit, .traffic_class = head->tclass, .flow_label = htobe32(head->flow_label),
		.pkey_index = head->pkey_index,
	};
	memcpy(a->gid, head->gid, sizeof(a->gid));
}

/* The pieces follow each other: weftd sends them at once. */
static int take_pieces(int fd, const struct control_mad *first, uint8_t *data)
{
	struct letter l;
	uint32_t at = 0;

	do {
		struct iovec iov[2] = { { &l, sizeof(l) }, { data + at, first->total - at } };
		struct msghdr header = { .msg_iov = iov, .msg_iovlen = 2 };
		ssize_t n;

		if (at && wait_for(fd, -1))
			return -EIO;
		n = recvmsg(fd, &header, MSG_DONTWAIT);
		if (n < (ssize_t)sizeof(l) || header.msg_flags & MSG_TRUNC || l.head.at != at || l.head.total != first->total)
			return -EIO;
		at += (uint32_t)(n - (ssize_t)sizeof(l));
	} while (at < first->total);
	return 0;
}

/* The program's number of the agent that weftd names; UMAD_AGENTS: it has none. */
static uint32_t agent_of(const struct port *p, uint32_t id)
{
	uint32_t i = id < UMAD_AGENTS && p->agents >> id & 1 && p->agent[id].id == id ? id : 0;

	while (i < UMAD_AGENTS && !(p->agents >> i & 1 && p->agent[i].id == id))
		i++;
	return i;
}

/* Its receive buffer is free again. What the program sends next says so too; a status came by none. */
static void give_back(struct port *p, const struct control_mad *head, uint32_t agent)
{
	struct control_msg msg = { .type = CTL_MAD_DONE, .a = head->agent };

	if (head->status || agent == UMAD_AGENTS || atomic_fetch_add(&p->read[agent], 1) + 1 < GIVEN_BACK)
		return;
	msg.b = atomic_exchange(&p->read[agent], 0);
	if (msg.b)
		message_send(p->fd, &msg, NULL, NULL, 0, 0);
}

/* A response, or a request that comes back. */
static bool ends_request(const struct letter *l, const uint8_t *data)
{
	struct mad_header h;

	if (l->head.total < MAD_HEADER_BYTES)
		return false;
	mad_header_parse(&h, data);
	return l->head.status || h.method & MAD_RESPONSE || h.method == MAD_TRAP_REPRESS;
}

/* What its head says is told, also where there is no room for the datagram. */
static uint32_t tell(struct port *p, const struct letter *l, struct ib_user_mad *mad, int *length)
{
	uint32_t agent = agent_of(p, l->head.agent);

	p->told_by = 0;
	fill_mad(mad, &l->head);
	if (agent < UMAD_AGENTS)
		mad->agent_id = agent;
	*length = (int)l->head.total;
	return agent;
}

/* It is the program's. */
static int finish(struct port *p, const struct letter *l, struct ib_user_mad *mad, uint32_t agent)
{
	if (agent < UMAD_AGENTS && ends_request(l, mad->data))
		requests_end(p, agent, mad->data);
	give_back(p, &l->head, agent);
	return (int)mad->agent_id;
}

static int take(struct port *p, const struct letter *l, struct ib_user_mad *mad, int *length)
{
	int room = *length, err;
	uint32_t agent = tell(p, l, mad, length);

	/* of one that was passed over: take_short */
	if (l->head.at) {
		/* cppcheck-suppress nullPointer ; of no bytes */
		recv(p->fd, NULL, 0, MSG_DONTWAIT | MSG_TRUNC);
		p->taken++;
		return -EWOULDBLOCK;
	}
	if (l->head.total > (uint32_t)room)
		return -ENOSPC;
	err = take_pieces(p->fd, &l->head, mad->data);
	p->taken++;		/* after it: who reads the new number sees what comes next */
	return err ? err : finish(p, l, mad, agent);
}

/* Takes what has come, which is one MAD, without a look at it before: that spares a call of each. Whoever answers with more than
 * was asked for has given no answer, and the rest of that is passed over. -EWOULDBLOCK: nothing has come. `reading` is held. */
static int take_short(struct port *p, struct ib_user_mad *mad, int *length)
{
	struct letter l;
	struct iovec iov[2] = { { &l, sizeof(l) }, { mad->data, MAD_BYTES } };
	struct msghdr header = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n;
	int result;

	do {
		n = recvmsg(p->fd, &header, MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? -EWOULDBLOCK : -EIO;
		if (n < (ssize_t)sizeof(l) || l.msg.type != CTL_MAD)
			return -EIO;
		p->taken++;
	} while (l.head.at);
	result = finish(p, &l, mad, tell(p, &l, mad, length));
	if (l.head.total > MAD_BYTES) {
		mad->status = ETIMEDOUT;
		mad->length = (uint32_t)sizeof(*mad) + MAD_BYTES;
		*length = MAD_BYTES;
	}
	return result;
}

/* Waits until there is a datagram. One that waits for ever looks at it as it comes, which spares a poll(2) of each: *is_seen. */
static int wait_and_look(struct port *p, struct letter *l, int timeout_ms, bool *is_seen)
{
	int err;

	*is_seen = false;
	if (!timeout_ms)
		return 0;
	if (timeout_ms > 0)
		return wait_at(p, timeout_ms);
	while ((err = peek(p->fd, l, 0)) == -EWOULDBLOCK) {
		err = wait_for(p->fd, -1);
		if (err)
			return err;
	}
	*is_seen = !err;
	return err;
}

static int receive(struct port *p, struct ib_user_mad *mad, int *length, int timeout_ms)
{
	unsigned taken;
	struct letter l;
	bool is_seen;
	int result = -EWOULDBLOCK;

	pthread_mutex_lock(&p->reading);
	if (!p->has_long)
		result = take_short(p, mad, length);
	pthread_mutex_unlock(&p->reading);
	if (result != -EWOULDBLOCK)
		return result;
	taken = p->taken;
	result = wait_and_look(p, &l, timeout_ms, &is_seen);
	if (result)
		return result;
	pthread_mutex_lock(&p->reading);
	if (p->has_long && (!is_seen || p->taken != taken))
		result = peek(p->fd, &l, MSG_DONTWAIT);
	if (!result)
		result = p->has_long ? take(p, &l, mad, length) : take_short(p, mad, length);
	pthread_mutex_unlock(&p->reading);
	return result;
}

/* Is the port at another weftd than in this era, or has it come there? */
static bool is_back(struct port *p, unsigned era)
{
	return p->era != era || (port_is_over(p->fd) && !port_return(p, era));
}

UMAD_EXPORT int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	struct port *p = port_get(portid);
	int result = -EINVAL, room = *length;
	unsigned era;

	while (p && room >= LEAST_BYTES) {
		era = p->era;
		*length = room;
		result = receive(p, umad, length, timeout_ms);
		if (result != -EIO || !is_back(p, era))
			break;
	}
	if (p)
		port_put(p);
	if (result < 0)
		errno = -result;
	return result;
}
