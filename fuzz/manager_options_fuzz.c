/* Any text as a file of the manager's options: it is refused with a word, or the head has what a manager can use as it is. */
#include "fuzz.h"
#include "cli_text.h"

#include "cli/fabric.h"
#include "cli/manager_options.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fabric_head head = { 0 };
	struct manager_options o;
	struct fabric_qos read;
	int status;

	text_set(data, size);
	status = manager_options_read(&o, "a file");
	REQUIRE(status == EXIT_OK ? !text_told : text_told == 1);
	if (status != EXIT_OK)
		return 0;
	manager_options_apply(&o, &head);
	qos_read(&head.manager_qos, &read);
	REQUIRE(!memcmp(&read, &head.manager_qos, sizeof(read)));
	REQUIRE(head.manager_m_key_protect <= 3 && head.manager_priority <= 15 && o.lmc <= LMC_MOST);
	REQUIRE(head.manager_routing < ROUTE_CHOICES);
	return 0;
}
