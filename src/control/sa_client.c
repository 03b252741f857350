#include "control/sa_client.h"

#include "control/clock.h"
#include "control/connect.h"
#include "control/message.h"
#include "mgmt/rmpp.h"
#include "mgmt/sa_server.h"
#include "wire/field.h"
#include "wire/sa.h"
#include "wire/sa_records.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Our choices. A transaction of version 1 ends by itself (mgmt/transaction.h); of version 2 weftd says when the time is
 * over, which begins anew with each segment of the answer, and ends for good with RMPP_TOTAL_NS. */
enum { TODAY_MS = 10000, WEFTD_MS = 2000 };

enum { GIVEN_BACK = 4 };	/* datagrams, by one message: as abi/umad */

enum { HEAD = sizeof(struct control_mad), ROOM = HEAD + CONTROL_MAD_PIECE };

_Static_assert((int)SA_CLIENT_RETRIES == (int)SERIES_TRIES, "told by both");

#define SERIES_KEY 24, 0, 64

struct control_agent sa_client_agent(uint8_t class_version)
{
	return (struct control_agent){ .mgmt_class = MAD_CLASS_SA, .class_version = class_version,
				       .rmpp_version = class_version != SERIES_CLASS_VERSION, .oui = 0x1405 };
}

uint16_t sa_client_buffers(const struct sa_client_question *q)
{
	/* by RMPP weftd lends what a datagram takes */
	if (q->class_version != SERIES_CLASS_VERSION)
		return 0;
	return q->window && q->method != TXN_CONFIG ? q->window : SERIES_WINDOW;
}

int sa_client_register(int command, const uint8_t secret[16], const struct control_agent *agent, uint16_t buffers, uint32_t *id)
{
	struct control_msg msg = { .type = CTL_MAD_AGENT, .text_bytes = sizeof(*agent) };
	struct control_msg more = { .type = CTL_MAD_AGENT, .a = 2, .service = buffers };
	int err;

	memcpy(msg.gid, secret, sizeof(msg.gid));
	memcpy(more.gid, secret, sizeof(more.gid));
	err = connect_ask(command, &msg, agent);
	if (err)
		return err;
	*id = more.b = msg.b;
	err = buffers ? connect_ask(command, &more, NULL) : 0;
	return err == -ENOSPC ? 0 : err;
}

/* So many were copied: their receive buffers are free again. */
static void give_back(int fd, uint32_t agent, uint32_t datagrams)
{
	const struct control_msg done = { .type = CTL_MAD_DONE, .a = agent, .b = datagrams };

	message_send(fd, &done, NULL, NULL, 0, 0);
}

/* 0; -ECONNRESET: weftd has ended; -EIO. */
static int send_mad(int fd, uint32_t agent, uint16_t lid, uint32_t timeout_ms, const uint8_t mad[MAD_BYTES])
{
	/* QP1 and its Q_Key: IBA 3.9.4.3, 10.2.5 */
	const struct control_mad head = { .agent = agent, .timeout_ms = timeout_ms, .total = MAD_BYTES, .qpn = 1,
					  .qkey = 0x80010000u, .lid = lid };
	const struct control_msg msg = { .type = CTL_MAD, .text_bytes = HEAD + MAD_BYTES };
	char text[HEAD + MAD_BYTES];
	int err;

	memcpy(text, &head, HEAD);
	memcpy(text + HEAD, mad, MAD_BYTES);
	err = message_send(fd, &msg, text, NULL, 0, 0);
	return message_peer_ended(err) ? -ECONNRESET : err ? -EIO : 0;
}

/* The next piece of a datagram: its head and bytes in text. 0; -ETIMEDOUT: none until then; -ECONNRESET: weftd has ended. */
static int receive(int fd, wtime until, struct control_mad *head, char text[ROOM], uint32_t *bytes)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	wtime at = clock_now();
	uint64_t wait_ms = until <= at ? 0 : (until - at + WTIME_MS - 1) / WTIME_MS;
	struct control_msg msg;
	int n = poll(&p, 1, wait_ms > 60000 ? 60000 : (int)wait_ms), err;

	if (n <= 0)
		return n && errno != EINTR ? -errno : -ETIMEDOUT;
	err = message_receive(fd, &msg, text, ROOM, NULL, NULL, 0);
	if (err)
		return err == -EAGAIN ? -ETIMEDOUT : err == -ENOTCONN ? -ECONNRESET : -EIO;
	if (msg.type != CTL_MAD || msg.text_bytes < HEAD)
		return -ETIMEDOUT;
	memcpy(head, text, HEAD);
	*bytes = msg.text_bytes - HEAD;
	return 0;
}

/* ---- class version 1 ---- */

static int send_all(int fd, uint32_t agent, const struct sa_client_question *q, struct transaction *t, struct sa_client_answer *a)
{
	uint8_t mad[MAD_BYTES];
	int err = 0;

	while (!err && transaction_output(t, clock_now(), mad)) {
		err = send_mad(fd, agent, q->lid, 0, mad);
		a->sent++;
	}
	return err;
}

static void hear(struct transaction *t, uint32_t tid, const struct control_mad *head, const uint8_t *data, uint32_t bytes,
		 struct sa_client_answer *a)
{
	uint8_t mad[MAD_BYTES];

	/* the upper half of the id is the agent's */
	if (head->status || head->total != MAD_BYTES || bytes != MAD_BYTES || wire_get(data, 12, 0, 32) != tid)
		return;
	memcpy(mad, data, MAD_BYTES);
	transaction_input(t, clock_now(), mad);
	a->received++;
}

static int run(int fd, uint32_t agent, const struct sa_client_question *q, uint32_t tid, struct transaction *t,
	       struct sa_client_answer *a)
{
	wtime ends = q->timeout_ms ? clock_now() + q->timeout_ms * WTIME_MS : WTIME_NEVER;
	struct control_mad head = { 0 };
	char text[ROOM];
	uint32_t bytes = 0, copied = 0;
	int err = send_all(fd, agent, q, t, a);

	while (!err && t->phase < TXN_DONE && clock_now() < ends) {
		err = receive(fd, wtime_min(ends, transaction_deadline(t)), &head, text, &bytes);
		if (!err && !head.status && ++copied % GIVEN_BACK == 0)
			give_back(fd, agent, GIVEN_BACK);
		if (!err)
			hear(t, tid, &head, (const uint8_t *)text + HEAD, bytes, a);
		else if (err == -ETIMEDOUT)
			err = 0;
		transaction_expire(t, clock_now());
		if (!err)
			err = send_all(fd, agent, q, t, a);
	}
	if (err)
		return err;
	return t->phase < TXN_DONE || (t->phase == TXN_FAILED && !t->status) ? -ETIMEDOUT : 0;
}

static int ask_seed(int fd, uint32_t agent, const struct sa_client_question *q, struct sa_client_answer *a)
{
	uint8_t head[SERIES_HEAD] = { MAD_BASE_VERSION, MAD_CLASS_SA, SERIES_CLASS_VERSION, q->method };
	struct series_config config = sa_live_config;
	uint32_t tid = (uint32_t)clock_now();
	struct transaction t;
	int err;

	if (q->method != TXN_GET_TABLE && q->method != TXN_GET_BULK && (q->method != TXN_CONFIG || !q->bytes))
		return -EINVAL;
	if (q->retries > SA_CLIENT_RETRIES)
		return -EINVAL;
	wire_put(head, tid, 12, 0, 32);
	wire_put(head, q->attribute, 16, 0, 16);
	wire_put(head, q->key, SERIES_KEY);
	/* of another administration its ClassPortInfo is not asked: all of weft's have the same */
	if (q->times.is_known)
		series_config_times(&config, q->times.subnet_timeout, q->times.response_time);
	config.retries = q->retries;
	config.is_lsb_first = q->is_lsb_first;
	config.total_ns = q->timeout_ms * WTIME_MS;
	if (q->method == TXN_CONFIG)
		transaction_configure(&t, &config, clock_now(), head, q->records, q->bytes);
	else
		transaction_ask(&t, &config, clock_now(), head, q->window);
	err = run(fd, agent, q, tid, &t, a);
	if (!err) {
		a->status = t.status;
		a->data = t.in.data;
		a->bytes = t.status ? 0 : t.in.bytes;
		t.in.data = NULL;
	}
	transaction_fini(&t);
	return err;
}

/* ---- class version 2 ---- */

/* Pieces of one datagram follow each other, and none is empty: the next one of it, whose first has made its memory. */
static int take_piece(const struct control_mad *head, uint32_t total, const char *data, uint32_t bytes,
		      struct sa_client_answer *a)
{
	if (head->at != a->bytes || head->total != total || total > CONTROL_MAD_MOST || bytes > total - a->bytes ||
	    (!bytes && total))
		return -EIO;
	if (!a->data)
		a->data = malloc(total ? total : 1);
	if (!a->data)
		return -ENOMEM;
	memcpy(a->data + a->bytes, data, bytes);
	a->bytes += bytes;
	return 0;
}

static int receive_whole(int fd, uint32_t agent, wtime ends, struct sa_client_answer *a, uint32_t *status)
{
	struct control_mad head = { 0 };
	char text[ROOM];
	uint32_t bytes = 0, total = 0;
	int err = 0;

	while (!err && (!a->data || a->bytes < total)) {
		err = receive(fd, ends, &head, text, &bytes);
		if (!err && !a->data)
			total = head.total;
		if (!err)
			err = take_piece(&head, total, text + HEAD, bytes, a);
	}
	*status = head.status;
	a->received++;
	if (!err && !head.status)
		give_back(fd, agent, 1);
	return err;
}

static int ask_today(int fd, uint32_t agent, const struct sa_client_question *q, struct sa_client_answer *a)
{
	uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, MAD_CLASS_SA, SA_CLASS_VERSION, q->method };
	uint32_t status, timeout_ms = q->timeout_ms ? q->timeout_ms : TODAY_MS;
	wtime ends = clock_now() + (2ull * timeout_ms + WEFTD_MS) * WTIME_MS + RMPP_TOTAL_NS;
	int err;

	if (q->method != SA_GET_TABLE)
		return -EINVAL;
	wire_put(mad, (uint32_t)clock_now(), 12, 0, 32);
	wire_put(mad, q->attribute, 16, 0, 16);
	wire_put(mad, q->key, SA_KEY);
	err = send_mad(fd, agent, q->lid, timeout_ms, mad);
	a->sent++;
	if (!err)
		err = receive_whole(fd, agent, ends, a, &status);
	if (!err && (status || a->bytes < SA_HEAD))
		err = status == EINVAL || status == EPERM || status == EDQUOT ? -(int)status : -ETIMEDOUT;
	if (err) {
		free(a->data);
		a->data = NULL;
		a->bytes = 0;
		return err;
	}
	a->status = (uint16_t)wire_get(a->data, 4, 0, 16);
	a->record_bytes = (uint16_t)(8 * wire_get(a->data, SA_ATTRIBUTE_OFFSET));
	a->bytes = a->status ? 0 : a->bytes - SA_HEAD;
	memmove(a->data, a->data + SA_HEAD, a->bytes);
	return 0;
}

int sa_client_ask(int fd, uint32_t agent, const struct sa_client_question *q, struct sa_client_answer *a)
{
	*a = (struct sa_client_answer){ .status = 0 };
	if (q->class_version != SERIES_CLASS_VERSION && q->class_version != SA_CLASS_VERSION)
		return -EINVAL;
	return q->class_version == SERIES_CLASS_VERSION ? ask_seed(fd, agent, q, a) : ask_today(fd, agent, q, a);
}

int sa_client_call(int fd, uint32_t agent, uint16_t lid, uint32_t timeout_ms, uint8_t mad[MAD_BYTES])
{
	struct sa_client_answer a = { .status = 0 };
	uint32_t status = 0;
	int err = send_mad(fd, agent, lid, timeout_ms, mad);

	if (!err)
		err = receive_whole(fd, agent, clock_now() + (timeout_ms + WEFTD_MS) * WTIME_MS, &a, &status);
	if (!err && (status || a.bytes != MAD_BYTES))
		err = -ETIMEDOUT;
	if (!err)
		memcpy(mad, a.data, MAD_BYTES);
	free(a.data);
	return err;
}
