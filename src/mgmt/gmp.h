/* General management packets: MADs as datagrams from QP1 to QP1 of two ports, or between QP1 and another QP (IBA 13.4, 13.5). One
 * MAD is one UD SEND Only with the Q_Key of QP1 and the P_Key of the conversation, which who receives it checks (runtime/gsi.c,
 * weftd/qp1.c). Pure; the codecs of the MADs' classes are in wire.
 *
 * Who owns QP1 of a port that all processes of a host share? weftd does, as the owner of slot 0, to which QPNs 0 and 1 belong
 * (weftd/qp1.h). A process has one way to QP1: it gives frames to weftd and gets frames from weftd. weftd checks where a frame
 * comes from, finds the process that it is for by what the MAD says, and passes the frame on as it is. The frames travel in
 * messages of the control socket (CTL_FRAME), not in a shared-memory channel between weftd and each process:
 * - the kernel tells weftd who sent a message, bounds what one process has under way, and wakes weftd without its help; a ring
 *   in shared memory would be one more thing per process that weftd must map, look at, be woken from and not trust;
 * - processes of other users are woken without a timer for each of them, and of each other they see nothing;
 * - a connection costs a handful of MADs, and so does its end: a system call for each is no matter;
 * - the session with weftd already survives weftd's death, and its journal tells the next weftd who listens. A MAD that is lost
 *   meanwhile is repeated by its sender, as on any network.
 * A frame that reaches QP1 of a process through a channel of another process is dropped: only weftd speaks there. */
#ifndef WEFT_MGMT_GMP_H
#define WEFT_MGMT_GMP_H

#include "wire/mad.h"
#include "wire/packet.h"

enum { GSI_QPN = 1 };			/* IBA 3.9.4.3 */
#define GSI_QKEY 0x80010000u		/* IBA 10.2.5 */

enum { GMP_FRAME = PACKET_MAX_HEADER + MAD_BYTES + 4 };		/* no frame of one is longer */

struct gmp {
	int device;			/* whose port it leaves by or came to */
	uint16_t pkey;
	bool is_from_here;		/* of one that came: a port of this host sent it, so weftd has checked its sender */
	uint32_t qpn, qkey;		/* 0: from QP1 to QP1; else of the other end, which is a program's UD QP */
	struct packet_path path;	/* the source is the sender's */
	uint8_t mad[MAD_BYTES];
};

/* The frame of a device of this form; its bytes. */
size_t gmp_build(const struct gmp *gmp, enum packet_form form, uint8_t frame[GMP_FRAME]);

enum gmp_verdict {
	GMP_OK,
	GMP_MALFORMED,		/* no packet, or not one MAD */
	GMP_SPOILT,		/* its ICRC is wrong */
	GMP_NOT_QP1,		/* not from QP1 to QP1 with QP1's Q_Key: IBA 10.2.4, 10.2.5 */
};

/* Sets pkey, path and mad. Other than GMP_OK: *gmp is unspecified. */
enum gmp_verdict gmp_parse(struct gmp *gmp, enum packet_form form, const void *frame, size_t bytes);
/* As that, of a datagram from another QP to QP1, with whatever Q_Key; sets qpn and qkey too. */
enum gmp_verdict gmp_parse_from_qp(struct gmp *gmp, enum packet_form form, const void *frame, size_t bytes);

/* The way back to who sent by this path: IBA 13.5.4. */
struct packet_path gmp_path_back(const struct packet_path *path);
/* Does a packet by this path come from where the other path leads to? */
bool gmp_path_is_from(const struct packet_path *came, const struct packet_path *leads);

#endif
