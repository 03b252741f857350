/* What opening a device's file of datagrams comes to: a connection with weftd, at which they come and go. */
#ifndef WEFT_ABI_UMAD_UMAD_FILE_H
#define WEFT_ABI_UMAD_UMAD_FILE_H

#include "control/protocol.h"

#include <stdbool.h>
#include <stdint.h>

struct umad_file {
	uint8_t secret[16];	/* by which agents are registered for it */
	uint16_t manager, seed;	/* LIDs: of the port's subnet manager and of the seed's administration, or 0 */
	struct control_times times;
};

/* WEFT_DIR, or "" where there is none. */
const char *umad_dir(void);

/* How a file is asked for: control/protocol.h. */
enum umad_purpose { UMAD_IS_SM = 1, UMAD_GIVES_BACK = 2 };

/* Our choices, in ms: how long a weftd that was killed is waited for, and how often is looked. */
enum { UMAD_OUTAGE_MS = 10000, UMAD_LOOK_MS = 10 };

uint64_t umad_now_ms(void);

/* For the program's host of the fabric, at the port of this number. The socket, which the caller owns, or -errno. Blocks until
 * weftd answers; one that was killed is started again. */
int umad_file_open(const char *ca_name, int portnum, unsigned purpose, struct umad_file *f);

#endif
