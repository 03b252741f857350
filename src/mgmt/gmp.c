#include "mgmt/gmp.h"

#include "wire/addr.h"

#include <string.h>

size_t gmp_build(const struct gmp *gmp, enum packet_form form, uint8_t frame[GMP_FRAME])
{
	struct iovec mad = { (void *)(uintptr_t)gmp->mad, sizeof(gmp->mad) };
	struct packet p = {
		.form = form, .opcode = OPCODE_UD_SEND_ONLY, .pkey = gmp->pkey, .dest_qpn = gmp->qpn ? gmp->qpn : GSI_QPN,
		.deth = { gmp->qpn ? gmp->qkey : GSI_QKEY, GSI_QPN }, .path = gmp->path,
		.payload = &mad, .payload_iovs = 1, .payload_bytes = sizeof(gmp->mad),
	};

	if (form == PACKET_ROCE) {
		p.path.is_ipv4 = gid_is_ipv4(gmp->path.sgid) && gid_is_ipv4(gmp->path.dgid);
		p.path.udp_sport = ROCE_SPORT_BASE;
	}
	return packet_build(&p, frame, GMP_FRAME);
}

static bool is_of_qp1(const struct packet *p, bool is_from_qp1)
{
	if (p->opcode != OPCODE_UD_SEND_ONLY || p->dest_qpn != GSI_QPN)
		return false;
	return is_from_qp1 ? p->deth.src_qpn == GSI_QPN && p->deth.qkey == GSI_QKEY : p->deth.src_qpn > GSI_QPN;
}

static enum gmp_verdict parse(struct gmp *gmp, enum packet_form form, const void *frame, size_t bytes, bool is_from_qp1)
{
	struct packet p;
	enum packet_error error = form == PACKET_ETHERNET ? PACKET_BAD_FORM : packet_parse(&p, form, frame, bytes, true);

	if (error == PACKET_BAD_ICRC)
		return GMP_SPOILT;
	if (error != PACKET_OK)
		return GMP_MALFORMED;
	if (!is_of_qp1(&p, is_from_qp1))
		return GMP_NOT_QP1;
	if (p.payload_bytes != sizeof(gmp->mad))
		return GMP_MALFORMED;
	gmp->qpn = is_from_qp1 ? 0 : p.deth.src_qpn;
	gmp->qkey = p.deth.qkey;
	gmp->pkey = p.pkey;
	gmp->path = p.path;
	memcpy(gmp->mad, p.payload->iov_base, sizeof(gmp->mad));
	return GMP_OK;
}

enum gmp_verdict gmp_parse(struct gmp *gmp, enum packet_form form, const void *frame, size_t bytes)
{
	return parse(gmp, form, frame, bytes, true);
}

enum gmp_verdict gmp_parse_from_qp(struct gmp *gmp, enum packet_form form, const void *frame, size_t bytes)
{
	return parse(gmp, form, frame, bytes, false);
}

struct packet_path gmp_path_back(const struct packet_path *path)
{
	struct packet_path back = {
		.slid = path->dlid, .dlid = path->slid, .sl = path->sl, .has_grh = path->has_grh, .tclass = path->tclass,
		.hop_limit = path->hop_limit, .flow_label = path->flow_label,
	};

	memcpy(back.sgid, path->dgid, sizeof(back.sgid));
	memcpy(back.dgid, path->sgid, sizeof(back.dgid));
	return back;
}

bool gmp_path_is_from(const struct packet_path *came, const struct packet_path *leads)
{
	if (came->has_grh != leads->has_grh)
		return false;
	return came->has_grh ? memcmp(came->sgid, leads->dgid, sizeof(came->sgid)) == 0 : came->slid == leads->dlid;
}
