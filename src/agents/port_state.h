/* Links of ports: training, and what a change of their state brings about (IBA 7.2.7, 14.2.5.6). */
#ifndef WEFT_AGENTS_PORT_STATE_H
#define WEFT_AGENTS_PORT_STATE_H

#include "agents/agents.h"

/* Takes the port's link down, if it is up. The port's physical state becomes `phys`; its peer polls, unless it is disabled. */
void port_state_down(struct agents *a, wtime now, uint32_t port, enum port_phys phys);

/* Brings the port's link up, initialised, if both ends may: widths and speeds that both have enabled, neither disabled. */
void port_state_train(struct agents *a, wtime now, uint32_t port);

#endif
