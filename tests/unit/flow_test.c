/* Flow rules: which frames reach which QP. */
#include "adapter.h"

#include "verbs/flow.h"
#include "wire/ether.h"

#include <endian.h>

static struct qp *got[8];
static unsigned gots;

static void deliver(struct qp *qp, const struct packet *p)
{
	got[gots++] = qp;
}

/* Ethernet, IPv4 10.0.0.2 -> 10.0.0.3, UDP 7 -> 9, TTL 64. */
static const uint8_t udp4[] = {
	2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00,
	0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 3,
	0, 7, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4,
};

/* Ethernet with VLAN 5, IPv6 ::2 -> ::3, traffic class 0x12, flow label 0x34567, TCP 7 -> 9. */
static const uint8_t tcp6[] = {
	3, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0x00, 0, 5, 0x86, 0xdd,
	0x61, 0x23, 0x45, 0x67, 0, 20, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 7, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};

static unsigned steer(struct adapter *a, const uint8_t *frame, size_t bytes)
{
	struct packet p = { .form = PACKET_ETHERNET, .payload_bytes = (uint32_t)bytes };
	bool matched;

	p.payload_one = (struct iovec){ (void *)(uintptr_t)frame, bytes };
	p.payload = &p.payload_one;
	gots = 0;
	matched = flow_steer(&a->ca, a->roce, &p, deliver);
	assert_int_equal(matched, gots > 0);
	return gots;
}

static struct qp *raw_qp(struct adapter *a)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RAW_PACKET, .cap = { 4, 4, 1, 1, 0 } };
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;

	assert_int_equal(pd_create(&a->ca, a->roce, &pd), 0);
	assert_int_equal(cq_create(&a->ca, a->roce, 8, &cq), 0);
	assert_int_equal(qp_create(&a->ca, a->roce, &init, pd, cq, cq, NULL, NULL, &qp), 0);
	return qp;
}

/* As a program lays it out: the specifications follow the attributes. */
struct rule {
	struct ibv_flow_attr attr;
	uint8_t specs[256];
	unsigned bytes;
};

static void add(struct rule *r, const void *spec, size_t bytes)
{
	memcpy(r->specs + r->bytes, spec, bytes);
	r->bytes += (unsigned)bytes;
	r->attr.num_of_specs++;
}

static struct rule rule_of(enum ibv_flow_attr_type type, uint16_t priority)
{
	return (struct rule){ .attr = { .type = type, .priority = priority, .port = 1 } };
}

static struct ibv_flow_spec_eth eth_to(uint8_t last)
{
	struct ibv_flow_spec_eth s = {
		.type = IBV_FLOW_SPEC_ETH, .size = sizeof(s), .val = { .dst_mac = { 2, 0, 0, 0, 0, last } },
	};

	memset(s.mask.dst_mac, 0xff, sizeof(s.mask.dst_mac));
	return s;
}

static struct flow *create(struct qp *qp, struct rule *r)
{
	struct flow *flow = NULL;

	assert_int_equal(flow_create(qp, &r->attr, &flow), 0);
	return flow;
}

static void priorities(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *first = raw_qp(a), *second = raw_qp(a), *third = raw_qp(a);
	struct rule low = rule_of(IBV_FLOW_ATTR_NORMAL, 5);
	struct rule high = rule_of(IBV_FLOW_ATTR_NORMAL, 1), any = rule_of(IBV_FLOW_ATTR_NORMAL, 1);
	struct ibv_flow_spec_eth eth = eth_to(1);
	struct flow *flow[5];

	add(&low, &eth, sizeof(eth));
	add(&high, &eth, sizeof(eth));
	flow[0] = create(second, &low);
	assert_int_equal(a->joins, 1);
	assert_int_equal(steer(a, udp4, sizeof(udp4)), 1);
	assert_ptr_equal(got[0], second);
	flow[1] = create(first, &high);
	assert_int_equal(steer(a, udp4, sizeof(udp4)), 1);
	assert_ptr_equal(got[0], first);
	/* another QP of the same priority gets it too, and nobody twice */
	flow[2] = create(third, &high);
	flow[3] = create(first, &any);
	flow[4] = create(third, &any);
	assert_int_equal(steer(a, udp4, sizeof(udp4)), 2);
	assert_true(got[0] != got[1] && got[0] != second && got[1] != second);
	assert_int_equal(steer(a, udp4, ETHER_BYTES - 1), 0);
	assert_int_equal(qp_destroy(first), -EBUSY);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(a->leaves, 0);
		flow_destroy(flow[i]);
	}
	assert_int_equal(a->joins, 1);
	assert_int_equal(a->leaves, 1);
	assert_int_equal(steer(a, udp4, sizeof(udp4)), 0);
	adapter_delete(a);
}

static void defaults(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *one = raw_qp(a), *all = raw_qp(a), *multicast = raw_qp(a);
	struct rule rule = rule_of(IBV_FLOW_ATTR_NORMAL, 65535), rest = rule_of(IBV_FLOW_ATTR_ALL_DEFAULT, 1);
	struct rule groups = rule_of(IBV_FLOW_ATTR_MC_DEFAULT, 0);
	struct ibv_flow_spec_eth eth = eth_to(1);

	create(all, &rest);
	assert_int_equal(steer(a, udp4, sizeof(udp4)), 1);
	create(multicast, &groups);
	assert_int_equal(steer(a, tcp6, sizeof(tcp6)), 1);
	assert_ptr_equal(got[0], multicast);
	assert_int_equal(steer(a, udp4, sizeof(udp4)), 1);
	assert_ptr_equal(got[0], all);
	add(&rule, &eth, sizeof(eth));
	create(one, &rule);
	assert_int_equal(steer(a, udp4, sizeof(udp4)), 1);
	assert_ptr_equal(got[0], one);
	adapter_delete(a);	/* with its rules */
}

static void expect(struct adapter *a, struct qp *qp, struct rule r, bool matches4, bool matches6)
{
	struct flow *flow = create(qp, &r);

	assert_int_equal(steer(a, udp4, sizeof(udp4)), matches4);
	assert_int_equal(steer(a, tcp6, sizeof(tcp6)), matches6);
	flow_destroy(flow);
}

static void headers(void **state)
{
	struct ibv_flow_spec_eth vlan = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(vlan), .val = { .vlan_tag = htobe16(5) },
					  .mask = { .vlan_tag = htobe16(0xfff) } };
	struct ibv_flow_spec_ipv4 to = { .type = IBV_FLOW_SPEC_IPV4, .size = sizeof(to), .val = { .dst_ip = htobe32(0x0a000003) },
					 .mask = { .dst_ip = UINT32_MAX } };
	struct ibv_flow_spec_ipv4_ext ext = { .type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(ext),
					      .val = { .src_ip = htobe32(0x0a000000), .proto = 17, .ttl = 64, .flags = 2 },
					      .mask = { .src_ip = htobe32(0xffffff00), .proto = 0xff, .ttl = 0xff, .flags = 7 } };
	struct ibv_flow_spec_ipv6 six = { .type = IBV_FLOW_SPEC_IPV6, .size = sizeof(six),
					  .val = { .dst_ip = { [15] = 3 }, .flow_label = htobe32(0x34567), .next_hdr = 6,
						   .traffic_class = 0x12, .hop_limit = 1 },
					  .mask = { .dst_ip = { [15] = 0xff }, .flow_label = htobe32(0xfffff), .next_hdr = 0xff,
						    .traffic_class = 0xff, .hop_limit = 0xff } };
	struct ibv_flow_spec_tcp_udp udp = { .type = IBV_FLOW_SPEC_UDP, .size = sizeof(udp), .val = { .dst_port = htobe16(9) },
					     .mask = { .dst_port = UINT16_MAX } };
	struct adapter *a = adapter_new();
	struct qp *qp = raw_qp(a);
	struct rule r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);

	expect(a, qp, r, true, true);
	add(&r, &vlan, sizeof(vlan));
	expect(a, qp, r, false, true);
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	add(&r, &to, sizeof(to));
	expect(a, qp, r, true, false);
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	add(&r, &ext, sizeof(ext));
	expect(a, qp, r, true, false);
	add(&r, &udp, sizeof(udp));
	expect(a, qp, r, true, false);
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	add(&r, &six, sizeof(six));
	expect(a, qp, r, false, true);
	add(&r, &udp, sizeof(udp));
	expect(a, qp, r, false, false);
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	udp.type = IBV_FLOW_SPEC_TCP;
	add(&r, &udp, sizeof(udp));
	expect(a, qp, r, false, true);
	adapter_delete(a);
}

static void refusals(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = raw_qp(a), *ud = adapter_qp(a, IBV_QPT_UD, 8, NULL);
	struct rule r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	struct ibv_flow_spec_action_drop drop = { .type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(drop) };
	struct ibv_flow_spec_eth eth = eth_to(1);
	struct flow *flow;

	assert_int_equal(flow_create(ud, &r.attr, &flow), -EINVAL);
	r.attr.port = 2;
	assert_int_equal(flow_create(qp, &r.attr, &flow), -EINVAL);
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	r.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	assert_int_equal(flow_create(qp, &r.attr, &flow), -EOPNOTSUPP);
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	add(&r, &drop, sizeof(drop));
	assert_int_equal(flow_create(qp, &r.attr, &flow), -EOPNOTSUPP);
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	eth.size = 8;
	add(&r, &eth, sizeof(eth));
	assert_int_equal(flow_create(qp, &r.attr, &flow), -EINVAL);
	eth.size = sizeof(eth);
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	add(&r, &eth, sizeof(eth));
	add(&r, &eth, sizeof(eth));	/* one layer named twice */
	assert_int_equal(flow_create(qp, &r.attr, &flow), -EINVAL);
	r.attr.num_of_specs = 1;
	r.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
	assert_int_equal(flow_create(qp, &r.attr, &flow), -EINVAL);
	r = rule_of(IBV_FLOW_ATTR_SNIFFER, 0);
	assert_int_equal(flow_create(qp, &r.attr, &flow), -EOPNOTSUPP);
	r = rule_of(IBV_FLOW_ATTR_SNIFFER + 1, 0);
	assert_int_equal(flow_create(qp, &r.attr, &flow), -EINVAL);
	a->no_group = true;
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	assert_int_equal(flow_create(qp, &r.attr, &flow), -ENOMEM);
	assert_int_equal(qp->flows, 0);
	adapter_delete(a);
}

static void quota(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = raw_qp(a);
	struct rule r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	struct flow *last, *more;
	unsigned n = 0;

	while (flow_create(qp, &r.attr, &last) == 0)
		n++;
	assert_int_equal(n, 4096);
	assert_int_equal(flow_create(qp, &r.attr, &more), -ENOMEM);
	flow_destroy(last);
	assert_int_equal(flow_create(qp, &r.attr, &more), 0);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(priorities), cmocka_unit_test(defaults), cmocka_unit_test(headers), cmocka_unit_test(refusals),
		cmocka_unit_test(quota),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
