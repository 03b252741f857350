/* Topologies as text: what ibnetdiscover prints and ibsim reads, what is refused and where, and printing. */
#include "fabric.h"

#include "fabric/speed.h"

#include <errno.h>

/* Two switches and an adapter as ibnetdiscover --grouping prints them, with one link at half width at one of its ends. */
static const char discovered[] =
	"#\n"
	"# Topology file: generated on Tue Jun  5 14:15:10 2007\n"
	"#\n"
	"Chassis 1 (guid 0x8f104003f0000)\n"
	"\n"
	"Spine Nodes\n"
	"vendid=0x8f1\n"
	"devid=0x5a06\n"
	"sysimgguid=0x5442ba00003000\n"
	"switchguid=0x5442ba00003080(5442ba00003080)\n"
	"Switch\t24 \"S-005442ba00003080\"\t\t# \"ISR9024 (spine) #1\" enhanced port 0 lid 6 lmc 0\n"
	"[22][ext 3]\t\"H-0008f10403961354\"[1](8f10403961355) \t\t# \"MT23108 lid 9 9xABC\" lid 4 4xSDR\n"
	"[10]\t\"S-0008f10400410015\"[1][ext 7]\t\t# \"SW-6IB4 Voltaire\" lid 3 12xQDR\n"
	"\n"
	"Non-Chassis Nodes\n"
	"\n"
	"vendid=0x8f1\n"
	"devid=0x5a05\n"
	"switchguid=0x8f10400410015(8f10400410015)\n"
	"Switch\t8 \"S-0008f10400410015\"\t\t# \"SW-6IB4 Voltaire\" base port 0 lid 3 lmc 0\n"
	"[1]\t\"S-005442ba00003080\"[10]\t\t# \"ISR9024\" lid 6 4xDDR\n"
	"\n"
	"vendid=0x2c9\n"
	"devid=0x5a44\n"
	"caguid=0x8f10403961354\n"
	"Ca\t2 \"H-0008f10403961354\"\t\t# \"MT23108\"\r\n"
	"[1](8f10403961355) \t\"S-005442ba00003080\"[22]\t\t# lid 4 lmc 1 \"ISR9024\" lid 6 4xSDR\r\n";

static void what_ibnetdiscover_prints(void **state)
{
	struct test_fabric t;
	const struct fabric_node *s, *ca;
	const struct fabric_port *p;

	parse_fabric(&t, discovered);
	assert_int_equal(t.f.nodes, 3);
	s = &t.f.node[0];
	ca = &t.f.node[2];
	assert_string_equal(s->description, "ISR9024 (spine) #1");
	assert_int_equal(s->guid, 0x5442ba00003080);
	assert_int_equal(s->system_guid, 0x5442ba00003000);
	assert_int_equal(t.f.node[1].system_guid, 0x8f10400410015);
	assert_int_equal(s->vendor, 0x8f1);
	assert_int_equal(s->device, 0x5a06);
	assert_int_equal(s->ports, 24);
	assert_true(s->enhanced_port0);
	assert_false(t.f.node[1].enhanced_port0);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 0, 0)].lid, 6);
	p = &t.f.port[fabric_port_index(&t.f, 2, 1)];
	assert_int_equal(ca->type, NODE_CA);
	assert_int_equal(p->guid, 0x8f10403961355);
	assert_int_equal(p->lid, 4);
	assert_int_equal(p->lmc, 1);
	assert_int_equal(p->peer, fabric_port_index(&t.f, 0, 22));
	assert_int_equal(p->width, WIDTH_4X);
	assert_int_equal(p->speed, SPEED_SDR);
	assert_int_equal(p->state, PORT_INIT);
	/* the lower of what the two ends say */
	p = &t.f.port[fabric_port_index(&t.f, 0, 10)];
	assert_int_equal(p->width, WIDTH_4X);
	assert_int_equal(p->speed, SPEED_DDR);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 2, 2)].peer, PORT_NONE);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 2, 2)].lid, 0);
	end_fabric(&t);
}

static void what_ibsim_reads(void **state)
{
	struct test_fabric t;
	uint32_t port;

	parse_fabric(&t, "Switch\t8 \"Switch1\"\n[1]\t\"Hca1\"[1] w=8 s=3\n[2]\t\"Hca2\"[2]\n[3] \"Rt1\"\n"
			 "[4] \"Hca2\"[1] s=4 e=6\n\n"
			 "Hca 2 \"Hca1\"\n[1]\t\"Switch1\"[1]\n\nwidth=1\ncaguid=0x500\nHca\t2 \"Hca2\"\n\nRt 1 \"Rt1\"\n");
	assert_int_equal(t.f.nodes, 4);
	/* where ibsim begins to count */
	assert_int_equal(t.f.node[0].guid, 0x200000);
	assert_int_equal(t.f.node[1].guid, 0x100000);
	assert_int_equal(t.f.node[2].guid, 0x500);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 2, 2)].guid, 0x502);
	assert_string_equal(t.f.node[2].description, "Hca2");
	assert_int_equal(t.f.node[3].type, NODE_ROUTER);
	port = fabric_port_index(&t.f, 0, 1);
	assert_int_equal(t.f.port[port].width, WIDTH_12X);
	assert_int_equal(t.f.port[port].speed, SPEED_DDR);
	/* one end is enough, and port 1 is meant where none is named */
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 2, 2)].peer, fabric_port_index(&t.f, 0, 2));
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 0, 3)].peer, fabric_port_index(&t.f, 3, 1));
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 0, 4)].speed, SPEED_HDR);
	/* in a row, without those that nobody reaches */
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 0, 0)].lid, 1);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 1, 1)].lid, 2);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 1, 2)].lid, 0);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 2, 1)].lid, 3);
	end_fabric(&t);
}

/* From the number of the last NAME=NUMBER, or from where ibsim begins; every spelling. */
static void a_guid_counts_from_the_last_one(void **state)
{
	struct test_fabric t;

	parse_fabric(&t, "caguid+5\nrtguid+1\nSwitch 4 \"s\"\n[1] \"a\"\n[2] \"r\"\n[3] \"b\"\n[4] \"c\"\n"
			 "Ca 1 \"a\"\nRt 1 \"r\"\ncaguids=0x500\nhcaguids+0x10\nCa 1 \"b\"\ncaguids+0x20\nCa 1 \"c\"\n");
	assert_int_equal(t.f.node[0].guid, 0x200000);
	assert_int_equal(t.f.node[1].guid, 0x100005);
	assert_int_equal(t.f.node[2].guid, 0x300001);
	assert_int_equal(t.f.node[3].guid, 0x510);
	assert_int_equal(t.f.node[4].guid, 0x520);
	end_fabric(&t);
}

/* Each byte is looked at a few times, not as often as the line is long. */
static void a_long_number_in_a_comment_is_passed_at_once(void **state)
{
	enum { LONG = 1 << 20 };
	struct test_text all = { 0 };
	struct test_fabric t;
	char *zeros = malloc(LONG + 1);

	assert_non_null(zeros);
	memset(zeros, '0', LONG);
	zeros[LONG] = 0;
	put_text(&all, "Switch 1 \"s\"\n[1] \"a\"[1] # ");
	put_text(&all, zeros);
	put_text(&all, " 1234xQDR .1xDDR\nCa 1 \"a\"\n");
	parse_fabric(&t, all.at);
	assert_int_equal(t.f.port[port_named(&t.f, "a", 1)].width, WIDTH_1X);
	assert_int_equal(t.f.port[port_named(&t.f, "a", 1)].speed, SPEED_DDR);
	end_fabric(&t);
	free(zeros);
	free(all.at);
}

static void lids_of_the_text_are_kept(void **state)
{
	struct test_fabric t;

	parse_fabric(&t, "Switch 4 \"s\" # \"s\" base port 0 lid 0 lmc 0\n"
			 "Ca 1 \"a\"\n[1] \"s\"[1] # lid 2 lmc 1 \"s\" lid 0 4xQDR\nCa 1 \"b\"\n[1] \"s\"[2]\n"
			 "Ca 1 \"c\"\n[1] \"s\"[3]\nCa 1 \"d\"\n[1] \"s\"[4] # lid 0 lmc 2 \"s\"\n");
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 0, 0)].lid, 1);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 1, 1)].lid, 2);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 2, 1)].lid, 4);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 3, 1)].lid, 5);
	assert_int_equal(t.f.port[fabric_port_index(&t.f, 4, 1)].lid, 8);
	assert_int_equal(t.f.lids, 64);
	end_fabric(&t);
}

static const struct {
	const char *text;
	unsigned line;
	const char *says;
} refused[] = {
	{ "", 0, "no node" },
	{ "# nothing\n", 0, "no node" },
	{ "\nSwich 8 \"s\"\n", 2, "'Swich': expected Switch" },
	{ "!", 1, "'!': expected a node" },
	{ "Switch \"s\"\n", 1, "expected a number of ports, 1 to 254" },
	{ "Switch 255 \"s\"\n", 1, "1 to 254" },
	{ "Switch 0 \"s\"\n", 1, "1 to 254" },
	{ "Switch 8 s\n", 1, "id in quotes" },
	{ "Switch 8 \"s\n", 1, "id in quotes" },
	{ "Switch 8 \"\"\n", 1, "id in quotes" },
	{ "Switch 8 \"s\" base\n", 1, "expected # and a description" },
	{ "Switch 8 \"s\" # \"s\" base port 0 lid 49152\n", 1, "LID below 0xc000" },
	{ "Switch 8 \"s\" # \"s\" base port 0 lid 8 lmc 8\n", 1, "LMC of at most 7" },
	{ "Switch 8 \"s\" # \"s\" base port 0 lid 5 lmc 1\n", 1, "no multiple of the 2 LIDs" },
	{ "[1] \"s\"[1]\n", 1, "a port before any node" },
	{ "Switch 8 \"s\"\n[0] \"t\"[1]\n", 2, "port number of 1 to 8" },
	{ "Switch 8 \"s\"\n[9] \"t\"[1]\n", 2, "port number of 1 to 8" },
	{ "Switch 8 \"s\"\n[1 \"t\"[1]\n", 2, "port number of 1 to 8 and ]" },
	{ "Switch 8 \"s\"\n[1](12\n", 2, "GUID, hexadecimal" },
	{ "Switch 8 \"s\"\n[1](11112222333344445)\n", 2, "GUID, hexadecimal" },
	{ "Switch 8 \"s\"\n[1] t[1]\n", 2, "id of the node at the other end" },
	{ "Switch 8 \"s\"\n[1] \"t\"[0]\n", 2, "port at the other end, 1 to 254" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1]\n", 2, "no node \"t\"" },
	{ "Switch 8 \"s\"\n[1] \"s\"[1]\n", 2, "port 1 of \"s\" is linked with itself" },
	{ "Switch 8 \"s\"\n[1] \"t\"[3]\nSwitch 2 \"t\"\n", 2, "\"t\" has 2 ports, no port 3" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1]\n[1] \"t\"[2]\nSwitch 2 \"t\"\n", 3, "a link already, in line 2" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1]\n[2] \"t\"[1]\nSwitch 2 \"t\"\n[1] \"s\"[1]", 3, "linked with another port, in line 5" },
	{ "Switch 8 \"s\"\n\nSwitch 8 \"s\"\n", 3, "also the id of the node in line 1" },
	{ "switchguid=5\nSwitch 8 \"s\"\nswitchguid=5\nSwitch 8 \"t\"\n", 4, "GUID 0x5 is also that of the node in line 2" },
	{ "Ca 1 \"a\"\n[1](7) \"b\"\nCa 1 \"b\"\n[1](7) \"a\"\n", 4, "GUID 0x7 is also that of another port, in line 2" },
	{ "Ca 1 \"a\"\n[1](200000) \"s\"\nSwitch 1 \"s\"\n", 3, "GUID 0x200000 is also that of another port, in line 2" },
	{ "Ca 1 \"a\"\ncaguid=1\nCa 2 \"b\"\n[1](100001) \"a\"\n", 4, "GUID 0x100001 is also that of another port, in line 1" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1] # 4xABC\nSwitch 2 \"t\"\n", 2, "4xABC: expected a width" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1] # 5xSDR\nSwitch 2 \"t\"\n", 2, "5xSDR: expected a width" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1] w=32\nSwitch 2 \"t\"\n", 2, "w=32 has no bit" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1] w=\nSwitch 2 \"t\"\n", 2, "a number after w=" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1] ?\nSwitch 2 \"t\"\n", 2, "'?': expected an option" },
	{ "vendid 5\n", 1, "expected vendid=NUMBER" },
	{ "vendid+=5\n", 1, "expected vendid=NUMBER" },
	{ "caguid+=5\n", 1, "after caguid+" },
	{ "Switch 8 \"s\"\n[1] \"\x1b]0;t\x07\x80\"[1]\n", 2, "no node \"?]0;t??\"" },
	{ "Switch 8 \"s\"\n[1] \"t\"[1] \x1b[2J\n", 2, "'?': expected an option" },
	{ "vendid=x\n", 1, "a number of at most 0xffffff after vendid=" },
	{ "vendid=0x1000000\n", 1, "at most 0xffffff" },
	{ "width=0\n", 1, "no bit of a width" },
	{ "include \"other\"\n", 1, "'include' is an order to ibsim" },
	{ "do Link \"a\"[1]\n", 1, "'do' is an order" },
	{ "Switch 8 \"s\"\n@1 \"t\"\n", 2, "an alias of ibsim" },
	{ "Switch 2 \"s\" # \"s\" base port 0 lid 7\nCa 1 \"a\"\n[1] \"s\"[1] # lid 7\n", 3, "lid 7 is another port's" },
};

static void what_is_wrong_is_told_with_its_line(void **state)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct topology_fault fault = { 0 };
		struct topology t;

		topology_init(&t);
		assert_int_equal(topology_parse(&t, refused[i].text, strlen(refused[i].text), &fault), -EINVAL);
		if (fault.line != refused[i].line || !strstr(fault.text, refused[i].says))
			fail_msg("%s: %u: %s", refused[i].text, fault.line, fault.text);
		topology_fini(&t);
	}
}

static void too_many_lids_are_refused(void **state)
{
	struct topology_fault fault;
	struct test_text all = { 0 };
	struct topology t;

	/* 384 ports of 128 LIDs are all there are */
	for (int i = 0; i < 385; i++) {
		char text[80];

		snprintf(text, sizeof(text), "Switch 1 \"s%d\" # \"\" base port 0 lid 0 lmc 7\n", i);
		put_text(&all, text);
	}
	topology_init(&t);
	assert_int_equal(topology_parse(&t, all.at, all.length, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "49151 LIDs"));
	topology_fini(&t);
	free(all.at);
}

/* What is printed is read as the same fabric, and printed to the same text. */
static void round_trip(struct test_fabric *t)
{
	char *once = print_fabric(&t->f), *again;
	struct test_fabric other;

	parse_fabric(&other, once);
	again = print_fabric(&other.f);
	assert_string_equal(once, again);
	assert_int_equal(t->bytes, other.bytes);
	assert_memory_equal(t->mapping, other.mapping, t->bytes);
	end_fabric(&other);
	free(once);
	free(again);
}

static void printing_and_reading_changes_nothing(void **state)
{
	struct test_fabric t;

	parse_fabric(&t, discovered);
	round_trip(&t);
	end_fabric(&t);
	parse_fabric(&t, "Switch 4 \"s\"\n[1] \"r\" w=1 s=2\n[2] \"a\"\nRt 1 \"r\"\nCa 3 \"a\" # \"\x1b[2J\xff\"\n");
	assert_string_equal(t.f.node[2].description, " [2J ");
	round_trip(&t);
	end_fabric(&t);
	/* a switch's port has no GUID of its own */
	parse_fabric(&t, "Switch 1 \"s\"\n[1](77) \"a\"\nCa 1 \"a\"\n[1](78) \"s\"\n");
	assert_int_equal(t.f.port[port_named(&t.f, "s", 1)].guid, 0x200000);
	assert_int_equal(t.f.port[port_named(&t.f, "a", 1)].guid, 0x78);
	round_trip(&t);
	end_fabric(&t);
	for (const struct generate_kind *k = generate_kinds; k->name; k++) {
		make_fabric(&t, k->name, (char *const[]){ NULL });
		round_trip(&t);
		end_fabric(&t);
	}
}

static void printed_as_ibnetdiscover_prints(void **state)
{
	struct test_fabric t;
	char *text;

	MAKE(&t, "star", "hosts=1", "link=1xQDR");
	text = print_fabric(&t.f);
	assert_string_equal(text, "vendid=0x0\ndevid=0x0\nsysimgguid=0x200000000200000\n"
			    "switchguid=0x200000000200000(200000000200000)\n"
			    "Switch\t1 \"S-0200000000200000\"\t\t# \"s1\" base port 0 lid 1 lmc 0\n"
			    "[1]\t\"H-0200000000100000\"[1](200000000100001)\t\t# \"h1\" lid 2 1xQDR\n\n"
			    "vendid=0x0\ndevid=0x0\nsysimgguid=0x200000000100000\ncaguid=0x200000000100000\n"
			    "Ca\t1 \"H-0200000000100000\"\t\t# \"h1\"\n"
			    "[1](200000000100001)\t\"S-0200000000200000\"[1]\t\t# lid 2 lmc 0 \"s1\" lid 1 1xQDR\n");
	free(text);
	end_fabric(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_ibnetdiscover_prints),
		cmocka_unit_test(what_ibsim_reads),
		cmocka_unit_test(a_guid_counts_from_the_last_one),
		cmocka_unit_test(a_long_number_in_a_comment_is_passed_at_once),
		cmocka_unit_test(lids_of_the_text_are_kept),
		cmocka_unit_test(what_is_wrong_is_told_with_its_line),
		cmocka_unit_test(too_many_lids_are_refused),
		cmocka_unit_test(printing_and_reading_changes_nothing),
		cmocka_unit_test(printed_as_ibnetdiscover_prints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
