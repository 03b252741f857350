/* The picture of weft sim mad-storm. */
#ifndef WEFT_CLI_SIM_SVG_H
#define WEFT_CLI_SIM_SVG_H

#include <stdint.h>

/* Nodes with an answer over time, for each mode of the storm. An exit status; what went wrong is told. */
int sim_svg_storm(const char *path, uint32_t nodes, uint64_t seed);

#endif
