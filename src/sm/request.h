/* SMPs that the manager sends and awaits answers to: a queue, and a bounded number under way. One that is not answered is sent
 * again, as often as the share of SMPs that are lost calls for. */
#ifndef WEFT_SM_REQUEST_H
#define WEFT_SM_REQUEST_H

#include "sm/sm.h"

/* What becomes of an SMP: NAME, attribute, method, function that fills the attribute or NULL, function for its end. */
#define SM_KINDS(K)											\
	K(NODE_INFO, SMP_NODE_INFO, MAD_GET, NULL, discover_node_info)					\
	K(DESCRIPTION, SMP_NODE_DESCRIPTION, MAD_GET, NULL, discover_description)			\
	K(SWITCH_INFO, SMP_SWITCH_INFO, MAD_GET, NULL, discover_switch_info)				\
	K(CLEAR_CHANGE, SMP_SWITCH_INFO, MAD_SET, discover_fill_switch, discover_cleared)		\
	K(PORT_INFO, SMP_PORT_INFO, MAD_GET, NULL, discover_port_info)					\
	K(PKEYS, SMP_PKEY_TABLE, MAD_GET, NULL, discover_pkeys)						\
	K(GUIDS, SMP_GUID_INFO, MAD_GET, NULL, discover_guids)						\
	K(LFT, SMP_LFT, MAD_GET, NULL, discover_lft)							\
	K(SM_INFO, SMP_SM_INFO, MAD_GET, NULL, election_sm_info)					\
	K(POLL, SMP_SM_INFO, MAD_GET, NULL, election_poll)						\
	K(CONTROL, SMP_SM_INFO, MAD_SET, election_fill, election_control)				\
	K(SET_SWITCH, SMP_SWITCH_INFO, MAD_SET, configure_fill_switch, configure_switch)		\
	K(SET_LFT, SMP_LFT, MAD_SET, configure_fill_lft, configure_lft)					\
	K(SET_MFT, SMP_MFT, MAD_SET, configure_fill_mft, configure_mft)					\
	K(SET_SL2VL, SMP_SL2VL, MAD_SET, lanes_fill_levels, lanes_end_levels)				\
	K(SET_VLARB, SMP_VLARB, MAD_SET, lanes_fill_turns, lanes_end_turns)				\
	K(SET_GUIDS, SMP_GUID_INFO, MAD_SET, configure_fill_guids, configure_guids)			\
	K(SET_PKEYS, SMP_PKEY_TABLE, MAD_SET, partitions_fill, partitions_end)				\
	K(SET_PORT, SMP_PORT_INFO, MAD_SET, configure_fill_port, configure_port)			\
	K(ARM, SMP_PORT_INFO, MAD_SET, configure_fill_arm, configure_port)				\
	K(ACTIVATE, SMP_PORT_INFO, MAD_SET, configure_fill_activate, configure_port)			\
	K(DOWN, SMP_PORT_INFO, MAD_SET, configure_fill_down, configure_port)

enum sm_kind {
#define KIND(NAME, attribute, method, fill, end) WORK_##NAME,
	SM_KINDS(KIND)
#undef KIND
	SM_KIND_COUNT
};

/* The attribute of an SMP that sets. */
typedef void sm_fill(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES]);
/* data: the attribute that was answered with status 0; NULL: there is none. */
typedef void sm_end(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data);

#define KIND(NAME, attribute, method, fill, end) extern sm_end end;
SM_KINDS(KIND)
#undef KIND
extern sm_fill discover_fill_switch, election_fill, configure_fill_switch, configure_fill_lft, configure_fill_mft,
	configure_fill_port, configure_fill_arm, configure_fill_activate, configure_fill_down, configure_fill_guids,
	lanes_fill_levels, lanes_fill_turns, partitions_fill;

/* Puts it at the queue's end. Without memory the sweep has failed. */
void request_add(struct sm *s, const struct sm_work *w);
/* Nothing is queued or under way. */
bool request_all_done(const struct sm *s);
/* Nobody awaits anything any more. */
void request_drop_all(struct sm *s);
/* The next one that may be sent now. */
bool request_output(struct sm *s, wtime now, struct mad_letter *letter);
/* What was not answered in time is put back, or given up. */
void request_expire(struct sm *s, wtime now);
wtime request_deadline(const struct sm *s);
/* A response of an agent, or an SMP that comes back as nobody answered it. */
void request_input(struct sm *s, wtime now, const struct mad_letter *letter);

#endif
