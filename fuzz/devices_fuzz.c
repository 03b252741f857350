/* Any text as a list of devices: what is taken can be named, published and found again. */
#include "fuzz.h"

#include "control/devices.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_table t;
	char list[512], why[64] = "";
	unsigned named;

	if (size >= sizeof(list))
		return 0;
	memcpy(list, data, size);
	list[size] = '\0';
	if (control_table_parse(list, &t, why, sizeof(why))) {
		REQUIRE(*why);
		return 0;
	}
	REQUIRE(t.devices >= 1 && t.devices <= PAGE_DEVICES);
	for (uint32_t i = 0; i < t.devices; i++) {
		const struct control_device *d = &t.device[i];

		REQUIRE(memchr(d->name, '\0', PAGE_NAME) && memchr(d->netdev, '\0', PAGE_NAME) && !strpbrk(d->name, "./,=:"));
		REQUIRE(control_rate(d->width, d->speed) && d->protocol < PAGE_PROTOCOLS);
		REQUIRE(control_table_find(&t, d->name, strlen(d->name)) == i);
		REQUIRE(!control_devices_listed(d->name, &t, &named) && named == 1u << i);
	}
	return 0;
}
