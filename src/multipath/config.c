#include "multipath/config.h"

#include "multipath/packet.h"

#include <errno.h>

void mp_config_init(struct mp_config *c)
{
	*c = (struct mp_config){
		.width = MP_WIDTH_MOST, .paths = 1, .mtu_bytes = 4096, .window = 32, .replay = 64,	/* our choice */
		.flights = 64, .requests = 256, .barrier_tries = 3, .last_tries = 3,	/* MPT-31 */
		.retries = 7, .refusals = 7,	/* MPT-36 */
		.timeout_ns = 4 * WTIME_MS, .refusal_ns = WTIME_MS, .probe_ns = 100 * WTIME_MS,	/* our choice */
	};
}

int mp_config_check(const struct mp_config *c)
{
	uint32_t half;

	if (c->width < MP_WIDTH_LEAST || c->width > MP_WIDTH_MOST || c->start >> c->width)
		return -EINVAL;
	half = 1u << (c->width - 1);
	if (!c->paths || c->paths > MP_PATHS || !c->mtu_bytes || c->mtu_bytes > MP_MTU_MOST)
		return -EINVAL;
	if (!c->window || c->window > c->replay || c->replay >= half)	/* MPT-26 */
		return -EINVAL;
	if (!c->flights || c->flights > MP_FLIGHTS_MOST || !c->requests || !c->barrier_tries || c->last_tries < c->barrier_tries)
		return -EINVAL;
	if (!c->timeout_ns || !c->refusal_ns || !c->probe_ns)
		return -EINVAL;
	return c->spread > MP_RANDOM ? -EINVAL : 0;
}
