/* Widths and speeds of links, and their names as ibnetdiscover writes them: 4xQDR. */
#ifndef WEFT_FABRIC_SPEED_H
#define WEFT_FABRIC_SPEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum link_speed {
	SPEED_UNKNOWN,
#define SPEED(name, ...) SPEED_##name,
#include "fabric/speed.def"
#undef SPEED
	SPEEDS,
};

/* LinkWidthActive (IBA 14.2.5.6). */
enum link_width { WIDTH_1X = 1, WIDTH_4X = 2, WIDTH_8X = 4, WIDTH_12X = 8, WIDTH_2X = 16 };

/* Lanes of a width, 0 when it is none. */
unsigned width_lanes(uint8_t width);
/* The width with so many lanes, 0 when there is none. */
uint8_t width_of(unsigned lanes);

/* "QDR"; "?" when it is none. */
const char *speed_name(uint8_t speed);
/* SPEED_UNKNOWN when there is none of this name, of `length` bytes. */
enum link_speed speed_of(const char *name, size_t length);

/* What a port of this width and speed supports, that is the narrower widths 1X and 4X and all slower speeds, as bits of
 * LinkWidthSupported, LinkSpeedSupported and LinkSpeedExtSupported; and the bits that such a link has in LinkSpeedActive and
 * LinkSpeedExtActive (IBA 14.2.5.6). */
uint8_t widths_supported(uint8_t width);
uint8_t speeds_supported(uint8_t speed);
uint8_t ext_speeds_supported(uint8_t speed);
uint8_t speed_active(uint8_t speed);
uint8_t ext_speed_active(uint8_t speed);
/* Is it among these bits of LinkSpeedEnabled and LinkSpeedExtEnabled? */
bool speed_is_enabled(uint8_t speed, uint8_t base, uint8_t extended);

/* Data rate in Mbit/s, 0 when width or speed is none. */
uint32_t link_mbps(uint8_t width, uint8_t speed);

/* The widest width and the fastest speed among the bits of ibsim's options w=, s= and e=; 0 when there is none. */
uint8_t width_of_bits(uint64_t bits);
enum link_speed speed_of_bits(uint64_t base, uint64_t extended);

#endif
