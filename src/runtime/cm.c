#include "runtime/cm.h"

#include "control/networks.h"
#include "runtime/entry.h"
#include "runtime/gsi.h"
#include "runtime/helper.h"
#include "runtime/state.h"

void runtime_send_gmp(struct runtime *rt, const struct gmp *gmp)
{
	gsi_send(rt, gmp);
}

void runtime_tell_missing(struct runtime *rt)
{
	if (!atomic_exchange(&rt->told_missing, true))
		networks_tell_missing(rt->session.dir, "a listener at that address and port");
}

void runtime_set_cm(struct runtime *rt, const struct runtime_cm *cm)
{
	runtime_enter(rt);
	rt->cm = *cm;
	runtime_leave(rt);
	runtime_cm_kick(rt);
}

void runtime_cm_kick(struct runtime *rt)
{
	atomic_store(&rt->cm_kicked, true);
	helper_kick(rt);
}
