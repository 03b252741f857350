/* The rows of speed.def. */
#include "fabric/speed.h"

#include <string.h>

static const struct speed_row {
	const char *name;
	uint32_t mbps;
	uint8_t base, extended;
} speeds[SPEEDS] = {
	[SPEED_UNKNOWN] = { "?", 0, 0, 0 },
#define SPEED(name, mbps, base, extended) [SPEED_##name] = { #name, mbps, base, extended },
#include "fabric/speed.def"
#undef SPEED
};

/* From the widest to the narrowest. */
static const struct width_row {
	uint8_t width, lanes;
} widths[] = { { WIDTH_12X, 12 }, { WIDTH_8X, 8 }, { WIDTH_4X, 4 }, { WIDTH_2X, 2 }, { WIDTH_1X, 1 } };

enum { WIDTHS = sizeof(widths) / sizeof(widths[0]) };

unsigned width_lanes(uint8_t width)
{
	for (unsigned i = 0; i < WIDTHS; i++) {
		if (widths[i].width == width)
			return widths[i].lanes;
	}
	return 0;
}

uint8_t width_of(unsigned lanes)
{
	for (unsigned i = 0; i < WIDTHS; i++) {
		if (widths[i].lanes == lanes)
			return widths[i].width;
	}
	return 0;
}

uint8_t width_of_bits(uint64_t bits)
{
	for (unsigned i = 0; i < WIDTHS; i++) {
		if (bits & widths[i].width)
			return widths[i].width;
	}
	return 0;
}

const char *speed_name(uint8_t speed)
{
	return speeds[speed < SPEEDS ? speed : SPEED_UNKNOWN].name;
}

enum link_speed speed_of(const char *name, size_t length)
{
	for (enum link_speed s = SPEED_UNKNOWN + 1; s < SPEEDS; s++) {
		if (strlen(speeds[s].name) == length && !memcmp(speeds[s].name, name, length))
			return s;
	}
	return SPEED_UNKNOWN;
}

enum link_speed speed_of_bits(uint64_t base, uint64_t extended)
{
	for (unsigned s = SPEEDS - 1; s > SPEED_UNKNOWN; s--) {
		if (speeds[s].base & base || speeds[s].extended & extended)
			return (enum link_speed)s;
	}
	return SPEED_UNKNOWN;
}

uint32_t link_mbps(uint8_t width, uint8_t speed)
{
	return width_lanes(width) * (speed < SPEEDS ? speeds[speed].mbps : 0);
}

uint8_t widths_supported(uint8_t width)
{
	unsigned lanes = width_lanes(width);

	return (uint8_t)(width | (lanes ? WIDTH_1X : 0) | (lanes >= 4 ? WIDTH_4X : 0));
}

/* The four bits that PortInfo has for them. */
enum { SPEED_BITS = 15, BASE_FASTEST = 4 };

uint8_t speeds_supported(uint8_t speed)
{
	unsigned bits = 0;

	for (unsigned s = SPEED_SDR; s <= speed && s < SPEEDS; s++)
		bits |= speeds[s].base;
	return (uint8_t)bits;
}

uint8_t ext_speeds_supported(uint8_t speed)
{
	unsigned bits = 0;

	for (unsigned s = SPEED_SDR; s <= speed && s < SPEEDS; s++)
		bits |= speeds[s].extended;
	return (uint8_t)bits & SPEED_BITS;
}

/* A link that is faster than QDR says QDR, and the rest in the extended field. */
uint8_t speed_active(uint8_t speed)
{
	return speed <= SPEED_UNKNOWN || speed >= SPEEDS ? 0 : speeds[speed].base ? speeds[speed].base : BASE_FASTEST;
}

uint8_t ext_speed_active(uint8_t speed)
{
	unsigned bits = speed < SPEEDS ? speeds[speed].extended : 0;

	return (uint8_t)(bits > SPEED_BITS ? (SPEED_BITS + 1) / 2 : bits);
}

bool speed_is_enabled(uint8_t speed, uint8_t base, uint8_t extended)
{
	return ext_speed_active(speed) ? ext_speed_active(speed) & extended : speed_active(speed) & base;
}
