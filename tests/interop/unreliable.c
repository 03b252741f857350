/* unreliable uc|ud MESSAGES STRICT DEVICE GID-INDEX PORT [SERVER]: a sender (with SERVER) and a receiver on another host, over a
 * service that loses messages. What arrives must be whole, once and in its order (STRICT 1), or at least whole (STRICT 0: the
 * network duplicates or reorders, and IBA vol. 1, 9.8.2.2.1 takes the first packet of a message with any PSN). */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3000, ROOM = MOST + 40, RECEIVES = 48, WAIT_MS = 20000, SILENCE_MS = 1000, GRH = 40 };

static struct peer peer;

/* By its number, both ends: all lengths up to the longest. */
static uint32_t length_of(uint32_t number)
{
	uint32_t most = peer.type == IBV_QPT_UD ? 1000 : MOST;

	return 1 + number * 2654435761u % most;
}

static void send(uint32_t messages)
{
	for (uint32_t number = 0; number < messages; number++) {
		struct ibv_sge sge = { (uintptr_t)peer.memory, length_of(number), peer.mr->lkey };
		struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
						.imm_data = number };
		struct ibv_wc wc;

		if (peer.type == IBV_QPT_UD) {
			wr.wr.ud.ah = peer.ah;
			wr.wr.ud.remote_qpn = peer.other.qpn;
			wr.wr.ud.remote_qkey = PEER_QKEY;
		}
		peer_fill(peer.memory, sge.length, number);
		if (ibv_post_send(peer.qp, &wr, &bad) || !peer_completion(&peer, &wc, WAIT_MS) || wc.status != IBV_WC_SUCCESS)
			peer_fail(&peer, "a message is not sent");
		if (number % (RECEIVES / 2) == 0)	/* as many as the receiver can have under way */
			peer_meet(&peer);
	}
	peer_meet(&peer);
}

static void refuse(const char *what, const struct ibv_wc *wc, uint32_t number)
{
	printf("message %u of %u bytes, status %s: %s\n", number, wc->byte_len, ibv_wc_status_str(wc->status), what);
	exit(1);
}

/* true: another message came. */
static bool take(int ms, bool strict, uint32_t *next)
{
	uint32_t header = peer.type == IBV_QPT_UD ? GRH : 0, number;
	struct ibv_wc wc;
	uint8_t *at;

	if (!peer_completion(&peer, &wc, ms))
		return false;
	number = wc.imm_data;
	at = peer.memory + wc.wr_id * ROOM;
	if (wc.status != IBV_WC_SUCCESS)
		refuse("it fails", &wc, number);
	if (wc.byte_len != length_of(number) + header || !peer_holds(at + header, wc.byte_len - header, number))
		refuse("it is not what was sent", &wc, number);
	if (strict && number < *next)
		refuse("it comes again, or late", &wc, number);
	*next = number + 1;
	peer_receive(&peer, wc.wr_id, (size_t)wc.wr_id * ROOM, ROOM, peer.mr->lkey);
	return true;
}

static void receive(uint32_t messages, bool strict)
{
	uint32_t came = 0, next = 0;

	for (uint32_t number = 0; number < messages; number += RECEIVES / 2) {
		peer_meet(&peer);
		while (came < messages && next < number + 1 && take(SILENCE_MS / 10, strict, &next))
			came++;
		while (take(0, strict, &next))
			came++;
	}
	peer_meet(&peer);
	while (take(SILENCE_MS, strict, &next))
		came++;
	printf("%u of %u messages came, each whole\n", came, messages);
	if (came < messages / 2)
		exit(1);
}

int main(int argc, char **argv)
{
	struct peer_options options = { .access = IBV_ACCESS_LOCAL_WRITE };
	bool sends = argc == 8;
	uint32_t messages;

	if (argc < 7 || argc > 8) {
		fprintf(stderr, "usage: unreliable uc|ud MESSAGES STRICT DEVICE GID-INDEX PORT [SERVER]\n");
		return 2;
	}
	options.type = strcmp(argv[1], "ud") == 0 ? IBV_QPT_UD : IBV_QPT_UC;
	messages = (uint32_t)atoi(argv[2]);
	peer.role = sends ? "sender" : "receiver";
	peer_open(&peer, argv[4], atoi(argv[5]), (uint16_t)atoi(argv[6]), sends ? argv[7] : "");
	peer_connect(&peer, &options);
	for (uint64_t i = 0; !sends && i < RECEIVES; i++)
		peer_receive(&peer, i, i * ROOM, ROOM, peer.mr->lkey);
	peer_meet(&peer);
	if (sends)
		send(messages);
	else
		receive(messages, atoi(argv[3]));
	return 0;
}
