/* What tests over libibverbs begin with: a device, and RC QPs that can send. */
#ifndef WEFT_TESTS_ABI_RC_H
#define WEFT_TESTS_ABI_RC_H

#include "../rc_steps.h"

#include <infiniband/verbs.h>
#include <stddef.h>

/* NULL: there is none of that index. */
static inline struct ibv_context *device_open(int index)
{
	int devices = 0;
	struct ibv_device **list = ibv_get_device_list(&devices);
	struct ibv_context *ctx = list && index < devices ? ibv_open_device(list[index]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return ctx;
}

/* To RTS, over port 1 with an MTU of 1024 bytes. A DLID of 0: the peer is behind the same port. 0 or an errno value. */
static inline int rc_connect(struct ibv_qp *qp, struct ibv_qp_attr attr)
{
	struct ibv_port_attr port;
	int err = ibv_query_port(qp->context, 1, &port);

	attr.port_num = attr.ah_attr.port_num = 1;
	attr.path_mtu = IBV_MTU_1024;
	if (!attr.ah_attr.dlid)
		attr.ah_attr.dlid = port.lid;
	for (unsigned i = 0; i < RC_STEPS && err == 0; i++) {
		attr.qp_state = rc_step[i].to;
		err = ibv_modify_qp(qp, &attr, rc_step[i].mask);
	}
	return err;
}

#endif
