/* A subnet administration at h2, which answers what the test says. */
#ifndef WEFT_TESTS_UNIT_ADMINISTRATION_H
#define WEFT_TESTS_UNIT_ADMINISTRATION_H

#include "subnet.h"

#include "wire/field.h"
#include "wire/sa.h"

/* Its last request. */
static struct administration {
	struct mad_port *file;
	unsigned requests;
	struct mad_remote from;
	uint8_t mad[MAD_BYTES];
} sa;

static void hear(void *arg, const struct mad_letter *l)
{
	(void)arg;
	assert_int_equal(l->bytes, MAD_BYTES);
	sa.requests++;
	sa.from = l->remote;
	memcpy(sa.mad, l->data, MAD_BYTES);
}

/* With a subnet, for requests of these methods. */
static void sa_set_up(void **state, uint64_t methods)
{
	const struct mad_registration what = {
		.mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION, .methods = { methods },
	};

	net_set_up(state);
	sa = (struct administration){ .file = umad_open(&net->hub, net_port(1), &what, hear, NULL) };
	assert_non_null(sa.file);
}

static int sa_tear_down(void **state)
{
	umad_close(&net->hub, sa.file);
	return net_tear_down(state);
}

/* All ports know it by this LID; 0: they know none. */
static void set_manager(uint16_t lid)
{
	for (uint32_t port = 0; port < net->t.f.ports; port++)
		net->t.f.port[port].sm_lid = lid;
}

/* What time brings, at this moment. */
static void at(wtime now)
{
	net->hub.now = now;
	umad_expire(&net->hub);
}

/* sa.mad has the record. */
static void reply(uint8_t method, unsigned status)
{
	const struct mad_letter l = { .remote = sa.from, .data = sa.mad, .bytes = MAD_BYTES };

	sa.mad[3] = method;
	wire_put(sa.mad, status, 4, 0, 16);
	assert_int_equal(umad_ask(&net->hub, sa.file, &l), 0);
	at(net->hub.now);
}

#endif
