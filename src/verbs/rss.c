/* Toeplitz hashing of a frame's addresses and ports, and the table from hash to queue. */
#include "verbs/rss.h"

#include "wire/ether.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rss {
	struct rss_table *table;	/* ref */
	uint64_t fields;
	uint8_t key[RSS_KEY_BYTES];
};

enum {
	V4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
	V6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6,
	TCP = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP,
	UDP = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP,
	INPUT_MAX = 2 * 16 + 2 * 2,
};

int rss_table_create(unsigned log_size, struct qp *const *wq, struct rss_table **out)
{
	struct rss_table *table;

	if (log_size > RSS_LOG_SIZE_MAX)
		return -EINVAL;
	table = calloc(1, sizeof(*table) + (sizeof(table->wq[0]) << log_size));
	if (!table)
		return -ENOMEM;
	table->size = 1u << log_size;
	for (uint32_t i = 0; i < table->size; i++) {
		table->wq[i] = wq[i];
		wq[i]->flows++;
	}
	*out = table;
	return 0;
}

int rss_table_destroy(struct rss_table *table)
{
	if (table->refs)
		return -EBUSY;
	for (uint32_t i = 0; i < table->size; i++)
		table->wq[i]->flows--;
	free(table);
	return 0;
}

/* The header forbids to mix IPv4 with IPv6, and TCP with UDP. */
static int conf_check(const struct ibv_rx_hash_conf *conf)
{
	uint64_t fields = conf->rx_hash_fields_mask;

	if (conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ || fields & ~(uint64_t)(V4 | V6 | TCP | UDP))
		return -EOPNOTSUPP;
	if (conf->rx_hash_key_len != RSS_KEY_BYTES || !conf->rx_hash_key || (fields & V4 && fields & V6) ||
	    (fields & TCP && fields & UDP))
		return -EINVAL;
	return 0;
}

int rss_attach(struct qp *qp, struct rss_table *table, const struct ibv_rx_hash_conf *conf)
{
	int err = conf_check(conf);
	struct rss *rss;

	if (err < 0)
		return err;
	rss = calloc(1, sizeof(*rss));
	if (!rss)
		return -ENOMEM;
	*rss = (struct rss){ .table = table, .fields = conf->rx_hash_fields_mask };
	memcpy(rss->key, conf->rx_hash_key, sizeof(rss->key));
	table->refs++;
	qp->rss = rss;
	return 0;
}

void rss_detach(struct qp *qp)
{
	if (!qp->rss)
		return;
	qp->rss->table->refs--;
	free(qp->rss);
	qp->rss = NULL;
}

static size_t take(uint8_t *input, size_t at, bool wanted, const uint8_t *from, size_t bytes)
{
	if (!wanted)
		return at;
	memcpy(input + at, from, bytes);
	return at + bytes;
}

/* Source before destination, addresses before ports; what a frame does not have does not count. */
static size_t hash_input(const struct rss *rss, const struct ether *e, uint8_t *input)
{
	bool is_v4 = e->headers & ETHER_HAS_IPV4;
	uint64_t addresses = rss->fields & (is_v4 ? V4 : e->headers & ETHER_HAS_IPV6 ? V6 : 0);
	uint64_t ports = rss->fields & (e->headers & ETHER_HAS_TCP ? TCP : e->headers & ETHER_HAS_UDP ? UDP : 0);
	size_t n = 0, address_bytes = is_v4 ? 4 : 16;

	n = take(input, n, addresses & (IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6), e->src_ip, address_bytes);
	n = take(input, n, addresses & (IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_DST_IPV6), e->dst_ip, address_bytes);
	n = take(input, n, ports & (IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP), e->src_port, 2);
	return take(input, n, ports & (IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_DST_PORT_UDP), e->dst_port, 2);
}

/* For every bit set in the input, the 32 bits of the key that begin at its position. 36 bytes of input need 40 of key. */
static uint32_t toeplitz(const uint8_t *key, const uint8_t *input, size_t bytes)
{
	uint64_t window = 0;
	uint32_t hash = 0;

	for (unsigned i = 0; i < 4; i++)
		window = window << 8 | key[i];
	for (size_t i = 0; i < bytes; i++) {
		window = window << 8 | key[i + 4];
		for (unsigned bit = 0; bit < 8; bit++)
			if (input[i] & 0x80 >> bit)
				hash ^= (uint32_t)(window >> (8 - bit));
	}
	return hash;
}

struct qp *rss_pick(const struct qp *qp, const void *data, size_t bytes)
{
	const struct rss *rss = qp->rss;
	uint8_t input[INPUT_MAX];
	struct ether e;

	if (!ether_parse(&e, data, bytes))
		return rss->table->wq[0];
	return rss->table->wq[toeplitz(rss->key, input, hash_input(rss, &e, input)) & (rss->table->size - 1)];
}

int rss_wq_modify(struct qp *wq, wtime now, enum ibv_wq_state state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int err;

	switch (state) {
	case IBV_WQS_RDY:
		if (wq->state == IBV_QPS_RTR)
			return 0;
		err = qp_modify(wq, now, &attr, IBV_QP_STATE | IBV_QP_PORT);
		attr.qp_state = IBV_QPS_RTR;
		return err < 0 ? err : qp_modify(wq, now, &attr, IBV_QP_STATE);
	case IBV_WQS_ERR:
	case IBV_WQS_RESET:
		attr.qp_state = state == IBV_WQS_ERR ? IBV_QPS_ERR : IBV_QPS_RESET;
		return qp_modify(wq, now, &attr, IBV_QP_STATE);
	default:
		return -EINVAL;
	}
}
