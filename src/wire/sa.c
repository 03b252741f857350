#include "wire/sa.h"

#include "wire/field.h"

enum { MGID = 56, PORT_GID = 72, PATH_DGID = 64, PATH_SGID = 80 };

void sa_mcmember_get(struct sa_mcmember *m, const uint8_t mad[MAD_BYTES])
{
	memcpy(m->mgid, mad + MGID, sizeof(m->mgid));
	memcpy(m->port_gid, mad + PORT_GID, sizeof(m->port_gid));
#define GET(type, member, ...) m->member = (type)wire_get(mad, __VA_ARGS__);
	SA_MCMEMBER_FIELDS(GET)
#undef GET
}

void sa_mcmember_put(const struct sa_mcmember *m, uint8_t mad[MAD_BYTES])
{
	memset(mad + MAD_HEADER_BYTES, 0, MAD_BYTES - MAD_HEADER_BYTES);
	memcpy(mad + MGID, m->mgid, sizeof(m->mgid));
	memcpy(mad + PORT_GID, m->port_gid, sizeof(m->port_gid));
#define PUT(type, member, ...) wire_put(mad, m->member, __VA_ARGS__);
	SA_MCMEMBER_FIELDS(PUT)
#undef PUT
}

void sa_path_get(struct sa_path *p, const uint8_t mad[MAD_BYTES])
{
	memcpy(p->dgid, mad + PATH_DGID, sizeof(p->dgid));
	memcpy(p->sgid, mad + PATH_SGID, sizeof(p->sgid));
#define GET(type, member, ...) p->member = (type)wire_get(mad, __VA_ARGS__);
	SA_PATH_FIELDS(GET)
#undef GET
}

void sa_path_put(const struct sa_path *p, uint8_t mad[MAD_BYTES])
{
	memset(mad + MAD_HEADER_BYTES, 0, MAD_BYTES - MAD_HEADER_BYTES);
	memcpy(mad + PATH_DGID, p->dgid, sizeof(p->dgid));
	memcpy(mad + PATH_SGID, p->sgid, sizeof(p->sgid));
#define PUT(type, member, ...) wire_put(mad, p->member, __VA_ARGS__);
	SA_PATH_FIELDS(PUT)
#undef PUT
}
