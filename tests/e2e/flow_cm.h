/* An end of flow.c that connects by rdma_cm: the REQ offers the alternate path. */
#ifndef WEFT_TESTS_E2E_FLOW_CM_H
#define WEFT_TESTS_E2E_FLOW_CM_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct flow_cm {
	const char *server;		/* its IPv4 address */
	bool is_server;
	uint8_t ack_timeout;
	union ibv_gid alternate[2];	/* of the client: its own, the peer's */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *id;
};

/* The QP, in RESET, is in RTS afterwards. 0, or -1 with errno. */
int flow_cm_connect(struct flow_cm *cm, struct ibv_qp *qp);
/* The conversation goes over to the alternate path, as the QP has. */
int flow_cm_migrated(struct flow_cm *cm);
/* Until both ends know that the connection is over. */
int flow_cm_part(struct flow_cm *cm);

#endif
