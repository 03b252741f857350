/* A weftd that was killed leaves a fabric that the next one takes up. Programs that manage it go on too: their ports are opened
 * anew under the old numbers, which they poll, and requests that the last weftd took along are sent once more, as on a network
 * that has lost them. */
#include "abi/umad/umad_port.h"

#include "wire/mad.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Our choices: requests that are kept, how long each may be, and ms until a weftd that has left is gone. */
enum { REQUESTS_MOST = 4096, REQUEST_BYTES = 1 << 16, ABSENCE_MS = 1000 };

/* ---- requests that await an answer ---- */

void requests_init(struct port *p)
{
	p->requests = NULL;
	p->last = &p->requests;
	p->kept = 0;
}

static void take_out(struct port *p, struct request **at)
{
	struct request *r = *at;

	*at = r->next;
	if (p->last == &r->next)
		p->last = at;
	p->kept--;
	free(r);
}

static void forget_late(struct port *p)
{
	uint64_t now = umad_now_ms();

	for (struct request **at = &p->requests; *at;) {
		if ((*at)->until < now)
			take_out(p, at);
		else
			at = &(*at)->next;
	}
}

bool requests_keep(struct port *p, const struct control_mad *head, const uint8_t *data)
{
	struct request *r;

	if (!head->timeout_ms || head->total < MAD_HEADER_BYTES || head->total > REQUEST_BYTES)
		return false;
	pthread_mutex_lock(&p->books);
	if (p->kept == REQUESTS_MOST && p->requests->until < umad_now_ms())
		take_out(p, &p->requests);
	r = p->kept < REQUESTS_MOST ? malloc(sizeof(*r) + head->total) : NULL;
	if (r) {
		r->next = NULL;
		r->until = umad_now_ms() + (uint64_t)head->timeout_ms * (1 + (uint64_t)head->retries) + TOLD_LATE;
		r->head = *head;
		memcpy(r->data, data, head->total);
		*p->last = r;
		p->last = &r->next;
		p->kept++;
	}
	pthread_mutex_unlock(&p->books);
	return r;
}

/* weftd writes the upper half of the TID, and the program its own (IBA 13.4.6.4). */
static bool is_of(const struct request *r, uint32_t agent, const struct mad_header *h)
{
	struct mad_header own;

	mad_header_parse(&own, r->data);
	return r->head.agent == agent && (uint32_t)own.tid == (uint32_t)h->tid && own.mgmt_class == h->mgmt_class;
}

void requests_end(struct port *p, uint32_t agent, const uint8_t *data)
{
	struct mad_header h;
	struct request **at;

	mad_header_parse(&h, data);
	pthread_mutex_lock(&p->books);
	at = &p->requests;
	while (*at && !is_of(*at, agent, &h))
		at = &(*at)->next;
	if (*at)
		take_out(p, at);
	pthread_mutex_unlock(&p->books);
}

void requests_forget(struct port *p, uint32_t agent)
{
	pthread_mutex_lock(&p->books);
	for (struct request **at = &p->requests; *at;) {
		if ((*at)->head.agent == agent)
			take_out(p, at);
		else
			at = &(*at)->next;
	}
	pthread_mutex_unlock(&p->books);
}

void requests_fini(struct port *p)
{
	while (p->requests)
		take_out(p, &p->requests);
}

static void send_again(struct port *p)
{
	int err = 0;

	pthread_mutex_lock(&p->books);
	forget_late(p);
	for (const struct request *r = p->requests; r && !err; r = r->next) {
		struct control_mad head = r->head;

		head.agent = p->agent[r->head.agent].id;
		err = port_send_pieces(p->fd, &head, r->data, 0);
	}
	pthread_mutex_unlock(&p->books);
}

/* ---- files of subnet managers ---- */

struct issm {
	struct issm *next;
	int fd;				/* the program's, which may have closed it */
	ino_t inode;
	int number;
	char name[UMAD_NAME];
};

static struct issm *issms;		/* owned */
static pthread_mutex_t issms_lock = PTHREAD_MUTEX_INITIALIZER;

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

void issm_note(int fd, const char *name, int number)
{
	struct issm *i = calloc(1, sizeof(*i));

	if (!i)
		return;
	i->fd = fd;
	i->inode = inode_of(fd);
	i->number = number;
	strncpy(i->name, name, sizeof(i->name) - 1);
	pthread_mutex_lock(&issms_lock);
	i->next = issms;
	issms = i;
	pthread_mutex_unlock(&issms_lock);
}

bool port_is_over(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

static void return_issm(struct issm *i)
{
	struct umad_file file;
	int fd = umad_file_open(i->name, i->number, UMAD_IS_SM | UMAD_GIVES_BACK, &file);

	if (fd < 0)
		return;
	if (inode_of(i->fd) == i->inode) {
		i->inode = inode_of(fd);
		dup3(fd, i->fd, O_CLOEXEC);
	}
	close(fd);
}

/* What the program has closed, or uses for something else, is forgotten. */
static void return_issms(void)
{
	pthread_mutex_lock(&issms_lock);
	for (struct issm **at = &issms; *at;) {
		struct issm *i = *at;

		if (inode_of(i->fd) != i->inode) {
			*at = i->next;
			free(i);
			continue;
		}
		if (port_is_over(i->fd))
			return_issm(i);
		at = &i->next;
	}
	pthread_mutex_unlock(&issms_lock);
}

/* ---- the way back ---- */

/* A directory without a socket is one of nobody, but for a moment. */
static int open_again(struct port *p)
{
	uint64_t give_up = umad_now_ms() + ABSENCE_MS;
	int fd;

	while ((fd = umad_file_open(p->name, p->number, UMAD_GIVES_BACK, &p->file)) == -ENODEV && umad_now_ms() < give_up)
		nanosleep(&(struct timespec){ .tv_nsec = UMAD_LOOK_MS * 1000000L }, NULL);
	return fd;
}

/* Another process may have registered for the same meanwhile: then the agent sends and hears nothing. */
static void register_again(struct port *p)
{
	for (uint32_t i = 0; i < UMAD_AGENTS; i++) {
		struct agent *a = &p->agent[i];
		struct control_msg msg = { .a = 0, .service = a->own };

		p->read[i] = 0;
		if (!(p->agents >> i & 1))
			continue;
		if (port_ask_about_agent(p, &msg, &a->what)) {
			if (!port_is_over(p->fd))
				port_end_agent(p, i);
			continue;
		}
		a->id = msg.b;
		msg = (struct control_msg){ .a = 2, .b = a->id, .service = (uint32_t)a->buffers };
		if (a->buffers)
			port_ask_about_agent(p, &msg, NULL);
	}
}

static int come_back_once(struct port *p)
{
	int fd = open_again(p);
	bool is_there;

	if (fd < 0)
		return fd;
	is_there = port_move(p, fd);
	close(fd);
	if (!is_there)
		return -EBADF;
	p->era++;
	register_again(p);
	return_issms();
	send_again(p);
	return 0;
}

/* The next weftd may be killed too. */
static int come_back(struct port *p)
{
	uint64_t give_up = umad_now_ms() + UMAD_OUTAGE_MS;
	int err;

	do
		err = come_back_once(p);
	while (!err && port_is_over(p->fd) && umad_now_ms() < give_up);
	return err;
}

/* OpenSM ends its receiver by pthread_cancel(3), which must not leave locks behind. */
int port_return(struct port *p, unsigned era)
{
	int was, err;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	pthread_mutex_lock(&p->sending);
	err = p->era == era ? come_back(p) : 0;
	pthread_mutex_unlock(&p->sending);
	pthread_setcancelstate(was, NULL);
	return err;
}
