/* CM messages under impairment. They go through weftd, not over links, so for the stage (faults.h) each becomes the frame
 * that a wire would show, a UD send from QP1 to QP1, and a message again once it has passed. Under the host's lock. */
#ifndef WEFT_HOST_MADS_H
#define WEFT_HOST_MADS_H

#include "host/control.h"
#include "wire/packet.h"

struct ca_device;

enum {
	MADS_KEPT = 256,	/* our choice: messages on their way at once; older ones are lost */
	MADS_ARRIVED = 64,	/* that wait for the helper thread */
};

struct mads {
	uint32_t number;			/* of the last one kept */
	struct control_msg kept[MADS_KEPT];	/* what a frame does not say: who it is for, by weftd's addresses */
	uint32_t kept_number[MADS_KEPT];
	struct control_msg arrived[MADS_ARRIVED];
	uint32_t first, count;			/* of arrived: a ring */
};

/* The message as a frame of this device; its bytes. */
size_t mads_frame(const struct ca_device *dev, const struct control_msg *msg, uint8_t *frame, size_t room);
/* Keeps the rest of it. What goes with the frame as impair_push's `to`. */
uint32_t mads_keep(struct mads *m, const struct control_msg *msg);
/* Is this a frame's `to` from mads_keep? */
bool mads_is_one(uint32_t to);
/* The message of a frame that has passed. False: spoilt on its way, or too old. */
bool mads_restore(const struct mads *m, enum packet_form form, const void *frame, size_t bytes, uint32_t to,
		  struct control_msg *msg);

/* One that came in waits for mads_take. When there is no room it is lost. */
void mads_arrive(struct mads *m, const struct control_msg *msg);
bool mads_take(struct mads *m, struct control_msg *msg);

#endif
