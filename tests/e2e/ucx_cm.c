/* UCX over rdma_cm, by ucp_listener_create and an endpoint of an address, which no program of Debian's packages uses:
 * `ucx_cm ADDRESS PORT` serves one client, `ucx_cm ADDRESS PORT client` is that. Messages of many lengths go to the server and
 * back, and every byte is compared. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { ROUNDS = 200, LONGEST = 300000, TAG = 7 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_conn_request_h request;	/* the server's client */
static uint8_t out[LONGEST], in[LONGEST];

struct end {
	int is_done, is_over;	/* all messages went both ways; the connection is gone */
};

static void die(const char *what, ucs_status_t status)
{
	fprintf(stderr, "ucx_cm: %s: %s\n", what, ucs_status_string(status));
	exit(1);
}

static void must(const char *what, ucs_status_t status)
{
	if (status != UCS_OK)
		die(what, status);
}

static void finish(const char *what, ucs_status_ptr_t waited)
{
	ucs_status_t status = UCS_OK;

	if (UCS_PTR_IS_ERR(waited))
		die(what, UCS_PTR_STATUS(waited));
	if (UCS_PTR_IS_PTR(waited)) {
		while ((status = ucp_request_check_status(waited)) == UCS_INPROGRESS)
			ucp_worker_progress(worker);
		ucp_request_free(waited);
	}
	must(what, status);
}

static void open_worker(void)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
	ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE };

	must("ucp_init", ucp_init(&params, NULL, &context));
	must("ucp_worker_create", ucp_worker_create(context, &worker_params, &worker));
}

static struct sockaddr_storage parse(const char *address, const char *port, socklen_t *bytes)
{
	struct sockaddr_storage at = { 0 };
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&at;

	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)atoi(port));
		*bytes = sizeof(*v4);
	} else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)atoi(port));
		*bytes = sizeof(*v6);
	} else {
		die(address, UCS_ERR_INVALID_ADDR);
	}
	return at;
}

static void comes(ucp_conn_request_h r, void *arg)
{
	(void)arg;
	request = r;
}

/* The client ends when it is done; what the server then hears is that the connection is reset, or that nobody answers. */
static void fails(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	struct end *end = arg;

	(void)ep;
	if (!end->is_done)
		die("the connection", status);
	end->is_over = 1;
}

static void send_bytes(ucp_ep_h ep, size_t bytes)
{
	ucp_request_param_t none = { 0 };

	finish("send", ucp_tag_send_nbx(ep, out, bytes, TAG, &none));
}

/* The last message: the client ends once it has it, maybe before UCX tells here that it has gone. */
static void send_last(ucp_ep_h ep, size_t bytes, struct end *end)
{
	ucp_request_param_t none = { 0 };
	ucs_status_ptr_t sent;

	end->is_done = 1;
	sent = ucp_tag_send_nbx(ep, out, bytes, TAG, &none);
	if (UCS_PTR_IS_PTR(sent)) {
		while (!end->is_over && ucp_request_check_status(sent) == UCS_INPROGRESS)
			ucp_worker_progress(worker);
		ucp_request_free(sent);
	} else if (UCS_PTR_IS_ERR(sent) && !end->is_over) {
		die("the last send", UCS_PTR_STATUS(sent));
	}
}

static void receive_bytes(size_t bytes)
{
	ucp_request_param_t none = { 0 };

	memset(in, 0, bytes);
	finish("receive", ucp_tag_recv_nbx(worker, in, bytes, TAG, (ucp_tag_t)-1, &none));
}

static size_t fill(unsigned round)
{
	size_t bytes = 1 + (size_t)round * round * 7 % LONGEST;

	for (size_t i = 0; i < bytes; i++)
		out[i] = (uint8_t)(i * 13 + round);
	return bytes;
}

int main(int argc, char **argv)
{
	int is_client = argc > 3;
	struct end end = { 0 };
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = { fails, &end } };
	ucp_request_param_t none = { 0 };
	ucp_listener_h listener = NULL;
	struct sockaddr_storage at;
	socklen_t bytes = 0;
	ucp_ep_h ep;

	if (argc < 3)
		return 2;
	at = parse(argv[1], argv[2], &bytes);
	open_worker();
	if (is_client) {
		params.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
		params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
		params.sockaddr.addr = (struct sockaddr *)&at;
		params.sockaddr.addrlen = bytes;
	} else {
		ucp_listener_params_t l = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
			UCP_LISTENER_PARAM_FIELD_CONN_HANDLER, .sockaddr = { (struct sockaddr *)&at, bytes },
			.conn_handler = { comes, NULL } };

		must("ucp_listener_create", ucp_listener_create(worker, &l, &listener));
		puts("listening");
		fflush(stdout);
		while (!request)
			ucp_worker_progress(worker);
		params.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
		params.conn_request = request;
	}
	must("ucp_ep_create", ucp_ep_create(worker, &params, &ep));
	for (unsigned round = 0; round < ROUNDS; round++) {
		size_t length = fill(round);

		if (is_client)
			send_bytes(ep, length);
		receive_bytes(length);
		if (memcmp(in, out, length)) {
			fprintf(stderr, "ucx_cm: wrong bytes in round %u\n", round);
			return 1;
		}
		if (!is_client && round + 1 < ROUNDS)
			send_bytes(ep, length);
		else if (!is_client)
			send_last(ep, length, &end);
	}
	end.is_done = 1;
	if (is_client)
		finish("flush", ucp_ep_flush_nbx(ep, &none));
	while (!is_client && !end.is_over)
		ucp_worker_progress(worker);
	none.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
	none.flags = is_client ? 0 : UCP_EP_CLOSE_FLAG_FORCE;
	finish("close", ucp_ep_close_nbx(ep, &none));
	if (listener)
		ucp_listener_destroy(listener);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	printf("%d messages each way\n", ROUNDS);
	return 0;
}
