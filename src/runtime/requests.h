/* What calls of the program need of weftd, or of time, before or after their part under the lock: all outside the lock, and all
 * but runtime_post block. */
#ifndef WEFT_RUNTIME_REQUESTS_H
#define WEFT_RUNTIME_REQUESTS_H

#include "control/protocol.h"

#include <stdbool.h>
#include <stdint.h>

struct ca_device;
struct qp;
struct runtime;

/* Operations that may join a multicast group, as attaching and flow rules, wait for weftd:
 *     runtime_join_begin(rt);
 *     do { runtime_enter(rt); err = operation; runtime_leave(rt); } while (runtime_join(rt, &err));
 *     runtime_join_end(rt); */
void runtime_join_begin(struct runtime *rt);
bool runtime_join(struct runtime *rt, int *err);
void runtime_join_end(struct runtime *rt);
/* Before a QP is destroyed: what it has posted and what waits for a channel leaves first, if the channel comes
 * soon. Programs that send datagrams do not wait for their completions. */
void runtime_flush_qp(struct runtime *rt, struct qp *qp);
/* Before QPs are made: enough numbers for some hundred, if weftd has them. */
void runtime_reserve_numbers(struct runtime *rt);
int runtime_request(struct runtime *rt, struct control_msg *msg);	/* blocks for the answer; 0 or -errno of `status` */
int runtime_post(struct runtime *rt, const struct control_msg *msg);	/* no answer wanted */

/* An engine that runs apart takes over what was posted, and what can complete at once has completed. Blocks for
 * 200 ms at most. */
void runtime_run_engine(struct runtime *rt);

/* What comes from other hosts from now on is received, if weftd says soon that it can be. dev: strangers may
 * send first to a QP of this device, or NULL. Blocks for 1 s at most. */
void runtime_await_wire(struct runtime *rt, const struct ca_device *dev);
/* The way to another host's address. A zero sgid is set to the address of this host that it leaves by, *mtu
 * (enum ibv_mtu) to what it carries at most. -ENETUNREACH: there is no way, or weftd refuses it, which the program's user is
 * told. Blocks for 1 s at most. */
int runtime_way_to(struct runtime *rt, const uint8_t dgid[16], uint8_t sgid[16], uint8_t *mtu);

#endif
