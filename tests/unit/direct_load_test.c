/* What goes directly counts at our port as the packets that it would have been, whatever went before it. */
#include "ib/direct_load.h"
#include "wire/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct ca ca;
static struct ca_device dev;
static struct port_load load;
static struct engine engine;
static struct qp qp;

static void connect(const struct device_protocol *protocol, enum ibv_qp_type type, enum ibv_mtu mtu)
{
	static const struct ca_device fresh;

	dev = fresh;
	load = (struct port_load){ 0 };
	ca = (struct ca){ .routes.generation = 1 };
	dev.protocol = protocol;
	dev.load = &load;
	engine = (struct engine){ .service = type == IBV_QPT_UC ? SERVICE_UC : SERVICE_RC };
	direct_load_forget(&engine);
	qp = (struct qp){ .ca = &ca, .dev = &dev, .engine = &engine, .type = type, .attr.path_mtu = mtu,
			  .path.has_grh = protocol == &protocol_roce_v2, .path.is_ipv4 = true, .route.generation = 1 };
}

/* How much it counts at its port. */
static struct wire_load count(enum opcode_op op, unsigned trailer, uint64_t bytes)
{
	uint64_t words = dev.load->count[PORT_LOAD_LOOP_WORDS], packets = dev.load->count[PORT_LOAD_LOOP_PACKETS];

	direct_load_count(&qp, op, trailer, bytes);
	return (struct wire_load){ dev.load->count[PORT_LOAD_LOOP_PACKETS] - packets,
				   dev.load->count[PORT_LOAD_LOOP_WORDS] - words };
}

static void check(struct wire_load got, uint64_t packets, uint64_t bytes)
{
	assert_int_equal(got.packets, packets);
	assert_int_equal(got.words, bytes / 4);
}

/* LRH, BTH and ICRC are 24 bytes, RETH 16, AETH 4, immediate data 4. */
static void each_request_counts_for_itself(void **state)
{
	(void)state;
	connect(&protocol_ib, IBV_QPT_RC, IBV_MTU_1024);
	for (int i = 0; i < 2; i++)
		check(count(OP_SEND, 0, 1024), 2, 24 + 1024 + 24 + 4);
	check(count(OP_SEND, 0, 1025), 3, 2 * 24 + 1028 + 24 + 4);
	check(count(OP_WRITE, 0, 1025), 3, 2 * 24 + 16 + 1028 + 24 + 4);
	check(count(OP_WRITE, HDR_IMM, 1025), 3, 2 * 24 + 16 + 4 + 1028 + 24 + 4);
	check(count(OP_WRITE, 0, 1025), 3, 2 * 24 + 16 + 1028 + 24 + 4);
	check(count(OP_READ_REQUEST, 0, 3000), 4, 24 + 16 + 3 * 24 + 2 * 4 + 3000);
	direct_load_count_immediate(&qp);
	check(count(OP_CMP_SWAP, 0, 8), 2, 24 + 28 + 24 + 4 + 8);
}

static void an_unreliable_one_is_not_answered(void **state)
{
	(void)state;
	connect(&protocol_ib, IBV_QPT_UC, IBV_MTU_1024);
	check(count(OP_SEND, 0, 5), 1, 24 + 8);
}

/* IPv4 and UDP are 28 bytes, IPv6 and UDP 48. */
static void the_path_has_its_headers(void **state)
{
	(void)state;
	connect(&protocol_roce_v2, IBV_QPT_RC, IBV_MTU_256);
	check(count(OP_SEND, 0, 512), 3, 3 * (28 + 16) + 512 + 4);
	/* connected anew: ib/engine.c forgets what it was */
	qp.path.is_ipv4 = false;
	qp.attr.path_mtu = IBV_MTU_512;
	direct_load_forget(&engine);
	check(count(OP_SEND, 0, 512), 2, 2 * (48 + 16) + 512 + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_request_counts_for_itself),
		cmocka_unit_test(an_unreliable_one_is_not_answered),
		cmocka_unit_test(the_path_has_its_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
