#include "verbs/route.h"

#include "base/qpn.h"
#include "verbs/ca.h"
#include "verbs/qp.h"

#include <string.h>

_Static_assert(sizeof(struct route_key) == 24, "keys are compared as bytes");
_Static_assert(CA_DEVICES <= 16, "a key has room for a device");

void routes_init(struct routes *rs)
{
	memset(rs, 0, sizeof(*rs));
	rs->generation = 1;
}

void route_ask(struct ca *ca, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path, uint32_t qpn,
	       struct route *r)
{
	*r = (struct route){ .generation = ca->routes.generation, .qpn = qpn, .pkey = pkey };
	ca->ops->route(ca->owner, dev, path, r);
}

/* A process's QP numbers differ in their low bits, those of several processes in the high ones. */
static struct route_entry *place_of(struct routes *rs, const struct route_key *key)
{
	return &rs->entry[(key->qpn ^ qpn_slot(key->qpn) ^ key->dlid ^ key->dgid[15]) % ROUTES];
}

static void ask_for(struct ca *ca, const struct ca_device *dev, struct route_entry *e)
{
	static const uint8_t none[16];
	struct packet_path path = { .dlid = e->key.dlid, .sl = e->key.sl };

	path.has_grh = memcmp(e->key.dgid, none, sizeof(none)) != 0;
	memcpy(path.dgid, e->key.dgid, sizeof(path.dgid));
	route_ask(ca, dev, e->key.pkey, &path, e->key.qpn, &e->route);
}

static inline const struct route *find(const struct qp *qp, const struct route_key *key)
{
	struct route_entry *e = place_of(&qp->ca->routes, key);

	if (e->route.generation != qp->ca->routes.generation || memcmp(&e->key, key, sizeof(*key)) != 0) {
		e->key = *key;
		ask_for(qp->ca, qp->dev, e);
	}
	return &e->route;
}

static inline struct route_key make_key(const struct qp *qp, uint32_t qpn, uint16_t lid, uint8_t sl, bool has_grh,
					const uint8_t gid[16])
{
	struct route_key key = { .qpn = qpn, .sl = sl & 15, .device = qp->dev->index & 15, .dlid = lid, .pkey = qp_pkey(qp) };

	if (has_grh)
		memcpy(key.dgid, gid, sizeof(key.dgid));
	return key;
}

const struct route *route_of_av(const struct qp *qp, const struct av *av, uint32_t qpn)
{
	struct route_key key = make_key(qp, qpn, av->dlid, av->sl, av->is_global, av->dgid);

	return find(qp, &key);
}

const struct route *route_back(const struct qp *qp, const struct packet_path *path, uint32_t src_qpn)
{
	struct route_key key = make_key(qp, src_qpn, path->slid, path->sl, path->has_grh, path->sgid);

	return find(qp, &key);
}
