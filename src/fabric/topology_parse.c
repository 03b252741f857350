/* Text becomes a topology in two steps: lines become nodes and claims, each of which says that a port leads to a port of the node
 * with an id; then claims become links. What is wrong is told with the line where it stands. */
#include "fabric/topology_file.h"

#include "base/array.h"
#include "fabric/scan.h"
#include "fabric/speed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A node's id, and the line of its header. */
struct named {
	struct word id;
	uint64_t guid;
	uint32_t node;
	unsigned line;
};

/* What one line says of a port. */
struct claim {
	struct word id;			/* of the node at the other end; length 0: no line says anything */
	uint8_t number;			/* of its port there */
	uint8_t width, speed;		/* 0: not told */
	unsigned line;
};

struct parse {
	struct topology *t;
	struct topology_fault *fault;
	struct named *named;		/* owned: by node, then sorted by id */
	struct claim *claim;		/* owned: by port */
	uint32_t named_room, claim_room;
	unsigned line;
	int err;			/* of the first fault */
	bool has_node;
	/* settings of lines before a node */
	uint64_t next_guid[NODE_ROUTER + 1], base_guid[NODE_ROUTER + 1], system_guid;
	uint32_t vendor;
	uint16_t device;
	uint8_t width, speed;
};

/* What a terminal would take for more than a character is shown as '?'. */
static void make_printable(char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	}
}

/* The first fault is told. Returns false, so that a check may end with it. */
static bool __attribute__((format(printf, 3, 4))) refuse(struct parse *p, unsigned line, const char *format, ...)
{
	const size_t room = sizeof(p->fault->text);
	va_list ap;
	int length;

	if (p->err)
		return false;
	p->err = -EINVAL;
	p->fault->line = line;
	va_start(ap, format);
	length = vsnprintf(p->fault->text, room, format, ap);
	va_end(ap);
	if (length > 0)
		make_printable(p->fault->text, (size_t)length < room ? (size_t)length : room - 1);
	return false;
}

static bool no_memory(struct parse *p)
{
	if (!p->err)
		p->err = -ENOMEM;
	return false;
}

#define SHOWN(word) (int)((word).length < 64 ? (word).length : 64), (word).at

/* ---- settings ---- */

enum setting { SET_GUID, SET_SYSTEM_GUID, SET_VENDOR, SET_DEVICE, SET_WIDTH, SET_SPEED, SET_SPEED_EXT, SET_NOTHING };

/* Settings of lines by themselves, NAME=VALUE; a GUID's may be NAME+VALUE, which counts from the last NAME=VALUE. ibsim's names
 * have several spellings. */
static const struct setting_row {
	const char *name;
	enum setting set;
	enum node_type type;
	uint64_t most;
} settings[] = {
	{ "switchguid", SET_GUID, NODE_SWITCH, UINT64_MAX },
	{ "switchguids", SET_GUID, NODE_SWITCH, UINT64_MAX },
	{ "caguid", SET_GUID, NODE_CA, UINT64_MAX },
	{ "caguids", SET_GUID, NODE_CA, UINT64_MAX },
	{ "hcaguids", SET_GUID, NODE_CA, UINT64_MAX },
	{ "rtguid", SET_GUID, NODE_ROUTER, UINT64_MAX },
	{ "rtguids", SET_GUID, NODE_ROUTER, UINT64_MAX },
	{ "sysimgguid", SET_SYSTEM_GUID, 0, UINT64_MAX },
	{ "vendid", SET_VENDOR, 0, 0xffffff },
	{ "devid", SET_DEVICE, 0, 0xffff },
	{ "width", SET_WIDTH, 0, 31 },
	{ "speed", SET_SPEED, 0, 7 },
	{ "extspeed", SET_SPEED_EXT, 0, 31 },
	{ "pdebug", SET_NOTHING, 0, UINT64_MAX },
};

static bool apply_setting(struct parse *p, const struct setting_row *row, bool is_relative, uint64_t value)
{
	switch (row->set) {
	case SET_GUID:
		if (!is_relative)
			p->base_guid[row->type] = 0;
		p->next_guid[row->type] = p->base_guid[row->type] + value;
		if (!is_relative)
			p->base_guid[row->type] = value;
		break;
	case SET_SYSTEM_GUID: p->system_guid = value; break;
	case SET_VENDOR: p->vendor = (uint32_t)value; break;
	case SET_DEVICE: p->device = (uint16_t)value; break;
	case SET_WIDTH: p->width = width_of_bits(value); break;
	case SET_SPEED: p->speed = (uint8_t)speed_of_bits(value, 0); break;
	case SET_SPEED_EXT: p->speed = value ? (uint8_t)speed_of_bits(0, value) : p->speed; break;
	case SET_NOTHING: break;
	}
	return p->width && p->speed ? true : refuse(p, p->line, "%s has no bit of a width or speed", row->name);
}

static bool parse_setting(struct parse *p, struct word name, struct scan *s)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		bool is_relative;
		uint64_t value;

		if (!word_is(name, settings[i].name))
			continue;
		is_relative = settings[i].set == SET_GUID && scan_char(s, '+');
		if (!is_relative && !scan_char(s, '='))
			return refuse(p, p->line, "expected %s=NUMBER", settings[i].name);
		scan_blanks(s);
		if (!scan_value(s, settings[i].most, &value))
			return refuse(p, p->line, "expected a number of at most %#llx after %s%c",
				      (unsigned long long)settings[i].most, settings[i].name, is_relative ? '+' : '=');
		return apply_setting(p, &settings[i], is_relative, value);
	}
	return refuse(p, p->line, "'%.*s': expected Switch, Ca, Hca or Rt, a setting as vendid=, a port as [1], or a comment",
		      SHOWN(name));
}

/* ---- nodes ---- */

/* What is no printable ASCII becomes a blank, as ibnetdiscover shows it. */
static void describe(struct fabric_node *n, struct word text)
{
	size_t length = text.length < NODE_DESCRIPTION ? text.length : NODE_DESCRIPTION;

	memset(n->description, 0, sizeof(n->description));
	for (size_t i = 0; i < length; i++)
		n->description[i] = text.at[i] >= ' ' && text.at[i] <= '~' ? text.at[i] : ' ';
}

/* "lid NUMBER" and "lmc NUMBER" up to the next quoted text. */
static bool parse_lid(struct parse *p, struct scan *s, struct fabric_port *port)
{
	uint64_t lid = port->lid, lmc = port->lmc;
	struct word w;

	while (!scan_ends(s) && *s->at != '"') {
		bool is_good = true;

		scan_blanks(s);
		if (!scan_name(s, &w)) {
			s->at += !scan_ends(s) && *s->at != '"';
			continue;
		}
		scan_blanks(s);
		if (word_is(w, "lid"))
			is_good = scan_value(s, LIDS - 1, &lid);
		else if (word_is(w, "lmc"))
			is_good = scan_value(s, LMC_MOST, &lmc);
		if (!is_good)
			return refuse(p, p->line, "expected a LID below %#x and an LMC of at most %d", LIDS, LMC_MOST);
	}
	if (lid & ((1u << lmc) - 1))
		return refuse(p, p->line, "lid %u is no multiple of the %u LIDs that lmc %u gives", (unsigned)lid, 1u << lmc,
			      (unsigned)lmc);
	port->lid = (uint16_t)lid;
	port->lmc = (uint8_t)lmc;
	return true;
}

/* # "DESCRIPTION" enhanced port 0 lid 1 lmc 0 */
static bool parse_node_comment(struct parse *p, struct scan *s, struct fabric_node *n)
{
	static const char enhanced[] = "enhanced";
	struct word text;

	scan_blanks(s);
	if (!scan_char(s, '#'))
		return scan_ends(s) ? true : refuse(p, p->line, "expected # and a description after the id");
	scan_blanks(s);
	if (scan_quoted(s, &text))
		describe(n, text);
	if (n->type != NODE_SWITCH)
		return true;
	scan_blanks(s);
	n->enhanced_port0 = (size_t)(s->end - s->at) >= sizeof(enhanced) - 1 && !memcmp(s->at, enhanced, sizeof(enhanced) - 1);
	return parse_lid(p, s, &p->t->port[n->first_port]);
}

static bool add_node(struct parse *p, enum node_type type, unsigned ports, struct word id)
{
	struct fabric_node *n;
	int index = topology_add(p->t, type, ports);

	if (index == -E2BIG)
		return refuse(p, p->line, "there are more than %d nodes or %d ports: expected fewer", TOPOLOGY_NODES,
			      TOPOLOGY_PORTS);
	if (index < 0 || array_reserve(&p->named, &p->named_room, (uint32_t)index + 1, sizeof(*p->named)) ||
	    array_reserve(&p->claim, &p->claim_room, p->t->ports, sizeof(*p->claim)))
		return no_memory(p);
	p->named[index] = (struct named){ id, p->next_guid[type], (uint32_t)index, p->line };
	p->has_node = true;
	topology_set_guid(p->t, (uint32_t)index, p->next_guid[type]);
	p->next_guid[type] += type == NODE_SWITCH ? 1 : ports + 1;
	n = &p->t->node[index];
	n->system_guid = p->system_guid ? p->system_guid : n->guid;
	p->system_guid = 0;
	n->vendor = p->vendor;
	n->device = p->device;
	describe(n, id);
	return true;
}

static bool parse_node(struct parse *p, enum node_type type, struct scan *s)
{
	uint64_t ports;
	struct word id;

	scan_blanks(s);
	if (!scan_value(s, NODE_PORTS, &ports) || !ports)
		return refuse(p, p->line, "expected a number of ports, 1 to %d", NODE_PORTS);
	scan_blanks(s);
	if (!scan_quoted(s, &id) || !id.length)
		return refuse(p, p->line, "expected the node's id in quotes");
	return add_node(p, type, (unsigned)ports, id) && parse_node_comment(p, s, &p->t->node[p->t->nodes - 1]);
}

/* ---- ports ---- */

/* 4xQDR; anything else is no such word. */
static bool parse_rate(struct parse *p, struct scan *s, struct claim *c)
{
	struct scan in = *s;
	struct word speed;
	uint64_t lanes;

	if (!scan_number(&in, 10, 1000, &lanes) || !scan_char(&in, 'x') || !scan_name(&in, &speed))
		return true;
	c->width = width_of((unsigned)lanes);
	c->speed = (uint8_t)speed_of(speed.at, speed.length);
	if (!c->width || !c->speed)
		return refuse(p, p->line, "%ux%.*s: expected a width of 1x, 2x, 4x, 8x or 12x and a speed as SDR or QDR",
			      (unsigned)lanes, SHOWN(speed));
	*s = in;
	return true;
}

/* w=, s=, e=; ibnetdiscover --full also tells v=. */
static bool parse_option(struct parse *p, struct word name, struct scan *s, struct claim *c)
{
	uint64_t value;

	if (name.length != 1 || !scan_char(s, '='))
		return true;
	if (!scan_value(s, 255, &value))
		return refuse(p, p->line, "expected a number after %.*s=", SHOWN(name));
	if (*name.at == 'w')
		c->width = width_of_bits(value);
	else if (*name.at == 's')
		c->speed = (uint8_t)speed_of_bits(value ? value : 4, 0);	/* ibsim takes 0 for QDR */
	else if (*name.at == 'e' && value)
		c->speed = (uint8_t)speed_of_bits(0, value);
	if ((*name.at == 'w' && !c->width) || (strchr("se", *name.at) && !c->speed && value))
		return refuse(p, p->line, "%.*s=%u has no bit of a width or speed", SHOWN(name), (unsigned)value);
	return true;
}

/* A run of digits, as whole, or a byte: each is looked at once, however long the line is. */
static void skip_unknown(struct scan *s)
{
	const char *before = s->at;

	while (!scan_ends(s) && *s->at >= '0' && *s->at <= '9')
		s->at++;
	s->at += s->at == before;
}

/* Behind the other end's port: options, and a comment with descriptions and the rate. */
static bool parse_rest(struct parse *p, struct scan *s, struct claim *c)
{
	bool is_comment = false;
	struct word w;

	while (!scan_ends(s)) {
		const char *before = s->at;

		scan_blanks(s);
		is_comment |= scan_char(s, '#');
		if (scan_quoted(s, &w))
			continue;
		if (scan_name(s, &w) && !parse_option(p, w, s, c))
			return false;
		if (!parse_rate(p, s, c))
			return false;
		if (s->at != before)
			continue;
		if (!is_comment)
			return refuse(p, p->line, "'%c': expected an option as w=2, or a comment", *s->at);
		skip_unknown(s);
	}
	return true;
}

/* [ext 3] of ibnetdiscover --grouping: the port's number on the chassis. */
static void skip_external(struct scan *s)
{
	struct scan in = *s;
	struct word w;
	uint64_t n;

	if (scan_char(&in, '[') && scan_name(&in, &w)) {
		scan_blanks(&in);
		if (scan_number(&in, 10, UINT32_MAX, &n) && scan_char(&in, ']'))
			*s = in;
	}
}

/* (GUID) of a port, hexadecimal. */
static bool parse_guid(struct parse *p, struct scan *s, uint64_t *guid)
{
	if (!scan_char(s, '('))
		return true;
	if (!scan_number(s, 16, UINT64_MAX, guid) || !scan_char(s, ')'))
		return refuse(p, p->line, "expected the port's GUID, hexadecimal, and )");
	return true;
}

/* "ID"[2](GUID) */
static bool parse_other_end(struct parse *p, struct scan *s, struct claim *c)
{
	uint64_t number = 1, guid;

	scan_blanks(s);
	if (!scan_quoted(s, &c->id) || !c->id.length)
		return refuse(p, p->line, "expected the id of the node at the other end in quotes");
	if (scan_char(s, '[') && (!scan_number(s, 10, NODE_PORTS, &number) || !number || !scan_char(s, ']')))
		return refuse(p, p->line, "expected the number of the port at the other end, 1 to %d, and ]", NODE_PORTS);
	skip_external(s);
	c->number = (uint8_t)number;
	return parse_guid(p, s, &guid);
}

static bool parse_port(struct parse *p, struct scan *s)
{
	const struct fabric_node *n = p->has_node ? &p->t->node[p->t->nodes - 1] : NULL;
	struct claim c = { .line = p->line };
	struct scan comment;
	uint64_t number, guid;
	uint32_t port;

	if (!n)
		return refuse(p, p->line, "a port before any node: expected Switch, Ca, Hca or Rt");
	if (!scan_number(s, 10, NODE_PORTS, &number) || !number || number > n->ports || !scan_char(s, ']'))
		return refuse(p, p->line, "expected a port number of 1 to %u and ]", n->ports);
	port = n->first_port + (uint32_t)number;
	if (p->claim[port].id.length)
		return refuse(p, p->line, "port %u has a link already, in line %u", (unsigned)number, p->claim[port].line);
	skip_external(s);
	guid = p->t->port[port].guid;
	if (!parse_guid(p, s, &guid) || !parse_other_end(p, s, &c))
		return false;
	if (n->type != NODE_SWITCH)	/* whose ports have its GUID */
		p->t->port[port].guid = guid;
	comment = *s;
	if (!parse_rest(p, s, &c))
		return false;
	p->claim[port] = c;
	while (!scan_ends(&comment) && !scan_char(&comment, '#'))
		comment.at++;
	return n->type == NODE_SWITCH || parse_lid(p, &comment, &p->t->port[port]);
}

/* ---- lines ---- */

static const struct {
	const char *name;
	enum node_type type;
} headers[] = { { "Switch", NODE_SWITCH }, { "Ca", NODE_CA }, { "Hca", NODE_CA }, { "Rt", NODE_ROUTER }, };

/* What ibnetdiscover --grouping puts between nodes. */
static const char *const headings[] = { "Chassis", "Non", "Spine", "Line" };

/* ibsim's orders, which change what follows. */
static const char *const orders[] = { "include", "do", "module" };

static bool parse_words(struct parse *p, struct scan *s)
{
	struct word w;

	if (!scan_name(s, &w))
		return refuse(p, p->line, "'%c': expected a node, a setting, a port as [1], or a comment", *s->at);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		if (word_is(w, headers[i].name))
			return parse_node(p, headers[i].type, s);
	}
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++) {
		if (word_is(w, headings[i]))
			return true;
	}
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (word_is(w, orders[i]))
			return refuse(p, p->line, "'%s' is an order to ibsim, which weft does not follow: expected the nodes "
				      "themselves", orders[i]);
	}
	return parse_setting(p, w, s);
}

static bool parse_line(struct parse *p, struct scan *s)
{
	scan_blanks(s);
	if (scan_ends(s) || *s->at == '#')
		return true;
	if (*s->at == '@')
		return refuse(p, p->line, "an alias of ibsim: expected the port's number as [1] and the node's id");
	return scan_char(s, '[') ? parse_port(p, s) : parse_words(p, s);
}

/* ---- claims become links ---- */

static int compare_words(struct word a, struct word b)
{
	int order = memcmp(a.at, b.at, a.length < b.length ? a.length : b.length);

	return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_named(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = compare_words(x->id, y->id);

	return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int compare_id(const void *id, const void *named)
{
	return compare_words(*(const struct word *)id, ((const struct named *)named)->id);
}

static int compare_guids(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return x->guid != y->guid ? (x->guid > y->guid) - (x->guid < y->guid) : (x->line > y->line) - (x->line < y->line);
}

/* The names are sorted by id in the end. */
static bool sort_names(struct parse *p)
{
	qsort(p->named, p->t->nodes, sizeof(*p->named), compare_guids);
	for (uint32_t i = 1; i < p->t->nodes; i++) {
		if (p->named[i - 1].guid == p->named[i].guid)
			return refuse(p, p->named[i].line, "its GUID %#llx is also that of the node in line %u: expected another",
				      (unsigned long long)p->named[i].guid, p->named[i - 1].line);
	}
	qsort(p->named, p->t->nodes, sizeof(*p->named), compare_named);
	for (uint32_t i = 1; i < p->t->nodes; i++) {
		if (!compare_words(p->named[i - 1].id, p->named[i].id))
			return refuse(p, p->named[i].line, "\"%.*s\" is also the id of the node in line %u: expected another",
				      SHOWN(p->named[i].id), p->named[i - 1].line);
	}
	return true;
}

/* The lower rate of the two that the ends tell. */
static uint8_t lower_width(const struct parse *p, uint8_t a, uint8_t b)
{
	if (!a || !b)
		return a || b ? a | b : p->width;
	return width_lanes(a) < width_lanes(b) ? a : b;
}

static uint8_t lower_speed(const struct parse *p, uint8_t a, uint8_t b)
{
	if (!a || !b)
		return a || b ? a | b : p->speed;
	return a < b ? a : b;
}

static bool link_claim(struct parse *p, uint32_t port)
{
	const struct claim *c = &p->claim[port], *back;
	const struct named *other = bsearch(&c->id, p->named, p->t->nodes, sizeof(*p->named), compare_id);
	const struct fabric_node *n;
	uint32_t peer;

	if (!other)
		return refuse(p, c->line, "there is no node \"%.*s\": expected the id of a node in this file", SHOWN(c->id));
	n = &p->t->node[other->node];
	if (c->number > n->ports)
		return refuse(p, c->line, "\"%.*s\" has %u ports, no port %u", SHOWN(c->id), n->ports, c->number);
	peer = n->first_port + c->number;
	if (peer == port)
		return refuse(p, c->line, "port %u of \"%.*s\" is linked with itself", c->number, SHOWN(c->id));
	if (p->t->port[port].peer == peer)
		return true;
	back = &p->claim[peer];
	if (topology_link(p->t, port, peer, lower_width(p, c->width, back->width), lower_speed(p, c->speed, back->speed))) {
		if (back->id.length)
			return refuse(p, c->line, "port %u of \"%.*s\" is linked with another port, in line %u", c->number,
				      SHOWN(c->id), back->line);
		return refuse(p, c->line, "port %u of \"%.*s\" is linked with another port", c->number, SHOWN(c->id));
	}
	return true;
}

static bool link_all(struct parse *p)
{
	for (uint32_t port = 0; port < p->t->ports; port++) {
		if (p->claim[port].id.length && !link_claim(p, port))
			return false;
	}
	return true;
}

/* End ports of a node with their GUIDs; of others than switches those that have a link. */
static uint32_t list_guids(const struct parse *p, const struct named *node, struct named *guid)
{
	const struct fabric_node *n = &p->t->node[node->node];
	const struct fabric_port *port = &p->t->port[n->first_port];
	const struct claim *c = &p->claim[n->first_port];
	uint32_t guids = 0;

	if (n->type == NODE_SWITCH)
		guid[guids++] = (struct named){ .guid = port->guid, .line = node->line };
	for (unsigned i = 1; n->type != NODE_SWITCH && i <= n->ports; i++) {
		if (port[i].peer != PORT_NONE)
			guid[guids++] = (struct named){ .guid = port[i].guid, .line = c[i].id.length ? c[i].line : node->line };
	}
	return guids;
}

/* Subnet managers know ports by their GUIDs. */
static bool check_guids(struct parse *p)
{
	struct named *guid = calloc(p->t->ports, sizeof(*guid));
	uint32_t guids = 0;
	bool is_good = true;

	if (!guid)
		return no_memory(p);
	for (uint32_t n = 0; n < p->t->nodes; n++)
		guids += list_guids(p, &p->named[n], guid + guids);
	qsort(guid, guids, sizeof(*guid), compare_guids);
	for (uint32_t i = 1; i < guids && is_good; i++) {
		if (guid[i - 1].guid == guid[i].guid)
			is_good = refuse(p, guid[i].line,
					 "its GUID %#llx is also that of another port, in line %u: expected another",
					 (unsigned long long)guid[i].guid, guid[i - 1].line);
	}
	free(guid);
	return is_good;
}

static bool set_lids(struct parse *p)
{
	uint32_t port;
	int err = topology_set_lids(p->t, &port);

	if (err == -EEXIST)
		return refuse(p, p->claim[port].line, "lid %u is another port's: expected a LID for each port",
			      p->t->port[port].lid);
	if (err == -E2BIG)
		return refuse(p, 0, "its ports need more than the %d LIDs of a subnet", LIDS - 1);
	return err ? no_memory(p) : true;
}

int topology_parse(struct topology *t, const char *text, size_t bytes, struct topology_fault *fault)
{
	struct parse p = { .t = t, .fault = fault, .width = WIDTH_4X, .speed = SPEED_SDR };
	struct scan all = { text, text + bytes }, line;

	/* where ibsim begins */
	p.next_guid[NODE_CA] = p.base_guid[NODE_CA] = 0x100000;
	p.next_guid[NODE_SWITCH] = p.base_guid[NODE_SWITCH] = 0x200000;
	p.next_guid[NODE_ROUTER] = p.base_guid[NODE_ROUTER] = 0x300000;
	while (!p.err && scan_line(&all, &line)) {
		p.line++;
		parse_line(&p, &line);
	}
	if (!p.err && !p.named)
		refuse(&p, 0, "there is no node in it");
	if (!p.err && sort_names(&p) && link_all(&p) && check_guids(&p))
		set_lids(&p);
	free(p.named);
	free(p.claim);
	return p.err;
}
