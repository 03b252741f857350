#include "impair/partition.h"

#include "base/qpn.h"
#include "wire/addr.h"

#include <string.h>

enum { WORD = 64, GROUPS = 8 };	/* bytes of an entry; 16-bit groups of an address */

static bool read_number(const char **text, unsigned base, uint32_t most, uint32_t *number)
{
	const char *start = *text;
	uint64_t value = 0;

	for (;; ++*text) {
		unsigned c = (unsigned char)**text, digit = c >= '0' && c <= '9' ? c - '0' :
			(c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : base;

		if (digit >= base)
			break;
		value = base * value + digit;
		if (value > most)
			return false;
	}
	*number = (uint32_t)value;
	return *text != start;
}

static bool read_ipv4(const char *text, uint8_t gid[16])
{
	uint8_t address[4];

	for (int i = 0; i < 4; i++) {
		uint32_t byte;

		if ((i && *text++ != '.') || !read_number(&text, 10, 255, &byte))
			return false;
		address[i] = (uint8_t)byte;
	}
	gid_from_ipv4(gid, address);
	return !*text;
}

/* RFC 4291, 2.2: eight groups, or fewer around one "::". */
static bool read_ipv6(const char *text, uint8_t gid[16])
{
	uint32_t group[GROUPS];
	bool leads = strncmp(text, "::", 2) == 0;
	int n = 0, gap = -1;

	text += leads;
	while (*text) {
		if (*text == ':' && gap < 0 && (n || leads)) {
			gap = n;
			text++;
			continue;
		}
		if (n == GROUPS || !read_number(&text, 16, 0xffff, &group[n++]) || (*text && *text++ != ':'))
			return false;
	}
	if (gap < 0 ? n != GROUPS || text[-1] == ':' : n == GROUPS || (text[-1] == ':' && gap != n))
		return false;
	memset(gid, 0, 16);
	for (int i = 0; i < n; i++) {
		int at = gap < 0 || i < gap ? i : GROUPS - n + i;

		gid[2 * at] = (uint8_t)(group[i] >> 8);
		gid[2 * at + 1] = (uint8_t)group[i];
	}
	return true;
}

static bool read_peer(const char *word, struct partition_peer *p)
{
	static const struct { const char *name; enum partition_kind kind; uint32_t most; } kinds[] = {
		{ "slot:", PARTITION_SLOT, QPN_SLOTS - 1 }, { "process:", PARTITION_PROCESS, UINT32_MAX },
		{ "lid:", PARTITION_LID, UNICAST_LID_LAST },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t length = strlen(kinds[i].name);

		if (strncmp(word, kinds[i].name, length) != 0)
			continue;
		p->kind = kinds[i].kind;
		word += length;
		return read_number(&word, 10, kinds[i].most, &p->number) && p->number && !*word;
	}
	p->kind = PARTITION_GID;
	return strncmp(word, "gid:", 4) == 0 && (read_ipv4(word + 4, p->gid) || read_ipv6(word + 4, p->gid));
}

bool partition_parse(const char *text, struct partition *p)
{
	*p = (struct partition){ 0 };
	for (;;) {
		size_t bytes = strcspn(text, "+");
		char word[WORD];

		if (p->peers == PARTITION_PEERS || bytes >= sizeof(word))
			return false;
		memcpy(word, text, bytes);
		word[bytes] = '\0';
		if (!read_peer(word, &p->peer[p->peers++]))
			return false;
		text += bytes;
		if (!*text++)
			return true;
	}
}

static bool has_address(const struct packet *packet, bool is_out, const struct partition_peer *peer)
{
	const struct packet_path *path = &packet->path;

	if (peer->kind == PARTITION_LID)
		return packet->form == PACKET_IB && (is_out ? path->dlid : path->slid) == peer->number;
	return path->has_grh && memcmp(is_out ? path->dgid : path->sgid, peer->gid, sizeof(peer->gid)) == 0;
}

bool partition_cuts(const struct partition *p, bool is_out, enum packet_form form, const void *frame, size_t bytes,
		    uint32_t other)
{
	struct packet packet;
	bool is_parsed;

	if (!p->peers)
		return false;
	is_parsed = form != PACKET_ETHERNET && packet_parse(&packet, form, frame, bytes, false) == PACKET_OK;
	for (unsigned i = 0; i < p->peers; i++) {
		const struct partition_peer *peer = &p->peer[i];

		if (peer->kind == PARTITION_SLOT || peer->kind == PARTITION_PROCESS ?
		    is_out == (peer->kind == PARTITION_SLOT) && other == peer->number :
		    is_parsed && has_address(&packet, is_out, peer))
			return true;
	}
	return false;
}
