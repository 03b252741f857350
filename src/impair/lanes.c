#include "impair/lanes.h"

int impair_lanes_init(struct impair_lanes *lanes, const struct impair_spec *spec)
{
	for (unsigned device = 0; device < IMPAIR_DEVICES; device++)
		for (unsigned direction = 0; direction < IMPAIR_DIRECTIONS; direction++) {
			int err;

			lanes->acts[device][direction] = false;
			if (!impair_rules_act(&spec->rules[device][direction]))
				continue;
			err = impair_init(&lanes->lane[device][direction], spec, device, (enum impair_direction)direction);
			if (err)
				return err;
			lanes->acts[device][direction] = true;
		}
	return 0;
}

void impair_lanes_fini(struct impair_lanes *lanes)
{
	for (unsigned device = 0; device < IMPAIR_DEVICES; device++)
		for (unsigned direction = 0; direction < IMPAIR_DIRECTIONS; direction++) {
			impair_fini(&lanes->lane[device][direction]);
			lanes->acts[device][direction] = false;
		}
}

wtime impair_lanes_deadline(const struct impair_lanes *lanes)
{
	wtime first = WTIME_NEVER;

	for (unsigned device = 0; device < IMPAIR_DEVICES; device++)
		for (unsigned direction = 0; direction < IMPAIR_DIRECTIONS; direction++)
			if (lanes->acts[device][direction])
				first = wtime_min(first, impair_deadline(&lanes->lane[device][direction]));
	return first;
}

uint32_t impair_lanes_waiting(const struct impair_lanes *lanes)
{
	uint32_t waiting = 0;

	for (unsigned device = 0; device < IMPAIR_DEVICES; device++)
		for (unsigned direction = 0; direction < IMPAIR_DIRECTIONS; direction++)
			if (lanes->acts[device][direction])
				waiting += lanes->lane[device][direction].waiting;
	return waiting;
}
