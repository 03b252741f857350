/* What processes tell of packets with bad keys: weftd believes each of its own QPs alone, and not without end; and a process
 * keeps apart what came with bad P_Keys and with bad Q_Keys. */
#include "subnet.h"

#include "control/message.h"
#include "runtime/bad_keys.h"
#include "runtime/state.h"
#include "verbs/qp.h"
#include "weftd/bad_keys.h"

#include <sys/socket.h>
#include <unistd.h>


/* Of packets from the first process to the second. */
static struct control_msg about(uint32_t src_qpn, uint32_t dest_qpn, bool has_arrived)
{
	return (struct control_msg){ .type = CTL_BAD_KEY, .device = has_arrived ? BAD_KEY_ARRIVED : 0, .slot = net_lid(1),
				     .a = src_qpn, .b = dest_qpn, .service = 1 | (uint64_t)PKEY_DEFAULT << BAD_KEY_PKEY };
}

static void tell(unsigned client, struct control_msg msg)
{
	bad_keys_input(&net->hub, &net->client[client], &msg);
}

static unsigned violations(unsigned client)
{
	return net->t.f.port[net_port(client)].pkey_violations;
}

static void a_process_tells_of_its_own_queue_pairs(void **state)
{
	(void)state;
	tell(1, about(net_qpn(0, 5), net_qpn(2, 5), true));
	tell(1, about(net_qpn(0, 5), 0, true));
	tell(1, about(net_qpn(SUBNET_PROCESSES, 5), net_qpn(1, 5), true));	/* from nobody */
	assert_int_equal(violations(1), 0);
	tell(1, about(net_qpn(0, 5), net_qpn(1, 5), true));
	assert_int_equal(violations(1), 1);
	/* what it has sent, that the port at the other end does not let in */
	fabric_pkeys(&net->t.f, net_port(1))[0] = 0x8001;
	tell(0, about(net_qpn(2, 5), net_qpn(1, 5), false));
	assert_int_equal(violations(1), 1);
	tell(0, about(net_qpn(0, 5), net_qpn(1, 5), false));
	assert_int_equal(violations(1), 2);
	tell(0, about(0, net_qpn(1, 5), false));	/* a connection does not say it */
	assert_int_equal(violations(1), 3);
	assert_int_equal(violations(0) + violations(2), 0);
}

/* Its packets are counted, as its LID says where they came from. */
static void a_sender_that_has_ended_is_told_to_nobody(void **state)
{
	struct control_msg msg = about(net_qpn(SUBNET_PROCESSES, 5), net_qpn(1, 5), true);
	struct fabric_port *port = &net->t.f.port[net_port(1)];

	(void)state;
	port->sm_lid = net_lid(0);
	msg.gid[BAD_KEY_FROM] = (uint8_t)(net_lid(0) >> 8);
	msg.gid[BAD_KEY_FROM + 1] = (uint8_t)net_lid(0);
	tell(1, msg);
	assert_int_equal(violations(1), 1);
	assert_int_equal(net->subnet.agents.traps, 0);
	msg.gid[BAD_KEY_FROM] = 0xbf;	/* a LID that no port has */
	tell(1, msg);
	assert_int_equal(violations(1), 1);
}

/* The ports count all of it; the manager hears of so many a second. */
static void a_process_tells_so_often_in_a_second(void **state)
{
	struct control_msg msg = about(net_qpn(0, 5), net_qpn(1, 5), true), other = msg;
	struct fabric_port *port = &net->t.f.port[net_port(1)];

	(void)state;
	other.slot |= BAD_KEY_IS_QKEY;
	other.c = 1;
	port->sm_lid = net_lid(0);
	net->hub.now = 10 * WTIME_S;
	for (unsigned i = 0; i < BAD_KEYS_TOLD + 5; i++)
		tell(1, msg);
	assert_int_equal(violations(1), BAD_KEYS_TOLD + 5);
	assert_int_equal(net->subnet.agents.traps, 1);
	tell(1, other);
	assert_int_equal(port->qkey_violations, 1);
	assert_int_equal(net->subnet.agents.traps, 1);
	net->hub.now += WTIME_S;
	tell(1, other);
	assert_int_equal(port->qkey_violations, 2);
	assert_int_equal(net->subnet.agents.traps, 2);
}

/* The next message that the process has sent; its type is 0: there is none. */
static struct control_msg told(int weftd)
{
	struct control_msg msg;

	return message_receive(weftd, &msg, NULL, 0, NULL, NULL, MSG_DONTWAIT) ? (struct control_msg){ 0 } : msg;
}

static void both_kinds_are_told_apart(void **state)
{
	struct runtime *rt = aligned_alloc(_Alignof(struct runtime), sizeof(*rt));
	struct ca_device dev = { .protocol = &protocol_ib };
	struct qp qp = { .dev = &dev, .qpn = net_qpn(1, 5) };
	const struct packet p = { .opcode = OPCODE_UD_SEND_ONLY, .pkey = PKEY_DEFAULT, .deth = { 0x11223344, net_qpn(0, 5) } };
	struct control_msg msg;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	memset(rt, 0, sizeof(*rt));
	rt->session.socket = pair[0];
	atomic_store(&rt->session.state, SESSION_ATTACHED);
	rt->peers.node.fabric = net->t.f;
	rt->ca.now = WTIME_S;
	for (unsigned i = 0; i < 2; i++) {
		bad_keys_received(rt, &qp, &p, i);
		msg = told(pair[1]);
		assert_int_equal(msg.type, CTL_BAD_KEY);
		assert_int_equal((uint32_t)msg.service, 1);
		assert_int_equal(!!(msg.slot & BAD_KEY_IS_QKEY), i);
	}
	for (unsigned i = 0; i < 30; i++)
		bad_keys_received(rt, &qp, &p, i % 3 == 0);
	assert_int_equal(told(pair[1]).type, 0);
	rt->ca.now += WTIME_S;
	for (unsigned i = 0; i < 2; i++) {
		bad_keys_received(rt, &qp, &p, i);
		msg = told(pair[1]);
		assert_int_equal((uint32_t)msg.service, i ? 11 : 21);
		assert_int_equal(msg.c, i ? 0x11223344 : 0);
	}
	close(pair[0]);
	close(pair[1]);
	free(rt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_process_tells_of_its_own_queue_pairs, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(a_sender_that_has_ended_is_told_to_nobody, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(a_process_tells_so_often_in_a_second, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(both_kinds_are_told_apart, net_set_up, net_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
