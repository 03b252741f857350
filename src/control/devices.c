#include "control/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* struct ibv_port_attr: active_width is a bit of 1X, 4X, 8X; active_speed one of SDR, DDR, QDR, (FDR10,) FDR, EDR, HDR, NDR. */
static const struct rate {
	unsigned gbps;
	uint8_t width, speed;
} rates[] = {
	{ 10, 2, 1 }, { 20, 2, 2 }, { 25, 1, 32 }, { 40, 2, 4 }, { 50, 1, 64 }, { 56, 2, 16 }, { 100, 2, 32 }, { 200, 2, 64 },
	{ 400, 2, 128 }, { 800, 4, 128 },
};

#define DEFAULT_RATE .width = 2, .speed = 32	/* 100 Gb/s */

const struct control_table control_default = {
	.devices = 2,
	.device = { { .name = "weft0", .protocol = PAGE_IB, DEFAULT_RATE },
		    { .name = "weft1", .protocol = PAGE_ROCE_V2, DEFAULT_RATE } },
};

static const struct device_protocol *const protocols[PAGE_PROTOCOLS] = {
	[PAGE_IB] = &protocol_ib, [PAGE_ROCE_V2] = &protocol_roce_v2,
};

unsigned control_rate(uint8_t width, uint8_t speed)
{
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (rates[i].width == width && rates[i].speed == speed)
			return rates[i].gbps;
	return 0;
}

uint32_t control_table_find(const struct control_table *t, const char *name, size_t length)
{
	uint32_t i = 0;

	while (i < t->devices && (strlen(t->device[i].name) != length || memcmp(name, t->device[i].name, length) != 0))
		i++;
	return i;
}

void control_table_of(const struct page_device *device, uint32_t n, struct control_table *t)
{
	*t = (struct control_table){ .devices = n };
	for (uint32_t i = 0; i < n; i++) {
		memcpy(t->device[i].name, device[i].name, PAGE_NAME);
		t->device[i].protocol = device[i].protocol;
	}
}

/* ---- adapters ---- */

void control_adapter_name(const struct control_table *t, unsigned further, char name[PAGE_NAME])
{
	const char *first = t->device[0].name;
	size_t stem = strnlen(first, PAGE_NAME - 1);
	unsigned long number = 0;

	while (stem && first[stem - 1] >= '0' && first[stem - 1] <= '9')
		stem--;
	if (first[stem])
		number = strtoul(first + stem, NULL, 10) % 1000000;
	while (further) {
		char digits[24];
		size_t n = (size_t)snprintf(digits, sizeof(digits), "%lu", ++number), room = PAGE_NAME - 1 - n;

		memset(name, 0, PAGE_NAME);
		memcpy(name, first, stem < room ? stem : room);
		memcpy(name + (stem < room ? stem : room), digits, n);
		further -= control_table_find(t, name, strlen(name)) == t->devices;
	}
}

void control_table_add_adapters(struct control_table *t)
{
	const struct control_table own = *t;

	for (unsigned further = 1; t->devices < PAGE_DEVICES; further++, t->devices++)
		control_adapter_name(&own, further, t->device[t->devices].name);
}

/* ---- the list of --devices ---- */

/* The kernel's names of devices are folders in /sys, in lists with commas, and in faults before a dot. */
static bool is_name(const char *text, size_t length)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	return length > 0 && length < PAGE_NAME && strspn(text, letters) >= length && text[0] != '-';
}

/* Of a network interface; the kernel would take any byte but spaces, / and :, of which some are no text. */
static bool is_interface(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] == '/' || text[i] > '~')
			return false;
	return length > 0 && length < PAGE_NAME;
}

static bool is_word(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool set_rate(struct control_device *d, const char *text, size_t length)
{
	char word[8];

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		snprintf(word, sizeof(word), "%uG", rates[i].gbps);
		if (is_word(text, length, word)) {
			d->width = rates[i].width;
			d->speed = rates[i].speed;
			return true;
		}
	}
	return false;
}

/* NULL, or what is wrong. */
static const char *add_device(struct control_table *t, const char *part, size_t length)
{
	const char *colon = memchr(part, ':', length);
	size_t name = colon ? (size_t)(colon - part) : length, kind = colon ? length - name - 1 : 0;
	struct control_device *d = &t->device[t->devices];

	if (t->devices == PAGE_NAMED)
		return "a network has at most 8 devices";
	if (!is_name(part, name))
		return "a name has 1 to 15 letters, digits, _ and -";
	if (control_table_find(t, part, name) < t->devices)
		return "two devices have one name";
	if (colon && !is_word(colon + 1, kind, "ib") && !is_word(colon + 1, kind, "roce"))
		return "a device is of the kind ib or roce";
	*d = (struct control_device){ .protocol = colon && colon[1] == 'r' ? PAGE_ROCE_V2 : PAGE_IB, DEFAULT_RATE };
	memcpy(d->name, part, name);
	t->devices++;
	return NULL;
}

/* Of the device named last. */
static const char *set_property(struct control_table *t, const char *part, size_t length)
{
	size_t name = strcspn(part, "="), value = length - name - 1;
	struct control_device *d;

	if (!t->devices)
		return "a device's name comes first";
	d = &t->device[t->devices - 1];
	if (is_word(part, name, "rate"))
		return set_rate(d, part + name + 1, value) ? NULL :
			"rates are 10G, 20G, 25G, 40G, 50G, 56G, 100G, 200G, 400G and 800G";
	if (!is_word(part, name, "netdev"))
		return "what a device may have is rate= and netdev=";
	if (d->protocol != PAGE_ROCE_V2 || !is_interface(part + name + 1, value))
		return "netdev= is the interface of a roce device";
	for (uint32_t i = 0; i < t->devices; i++)
		if (is_word(part + name + 1, value, t->device[i].netdev))
			return "two devices have one netdev";
	memset(d->netdev, 0, sizeof(d->netdev));
	memcpy(d->netdev, part + name + 1, value);
	return NULL;
}

int control_table_parse(const char *list, struct control_table *t, char *why, size_t room)
{
	const char *error = NULL, *part = list, *end;

	*t = (struct control_table){ 0 };
	for (; !error; part = end + 1) {
		size_t length = strcspn(part, ",");

		end = part + length;
		error = memchr(part, '=', length) ? set_property(t, part, length) : add_device(t, part, length);
		if (!*end)
			break;
	}
	if (!error)
		return 0;
	snprintf(why, room, "%.*s: %s", (int)strcspn(part, ","), part, error);
	return -EINVAL;
}

/* ---- names ---- */

/* One line of a file below the tree of all devices; "" without it. */
static void read_name(const char *dir, uint32_t index, char name[PAGE_NAME])
{
	char path[256];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/" CONTROL_OWN "/devices/sys/class/infiniband_verbs/uverbs%u/ibdev", dir, index);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0) {
		n = read(fd, name, PAGE_NAME);
		close(fd);
	}
	if (n < 1 || name[n - 1] != '\n' || !is_name(name, (size_t)n - 1))
		n = 1;
	memset(name + n - 1, 0, PAGE_NAME - (size_t)n + 1);
}

static void read_tree(const char *dir, struct control_table *t)
{
	for (uint32_t i = 0; i < PAGE_DEVICES; i++) {
		read_name(dir, i, t->device[i].name);
		if (!t->device[i].name[0])
			break;
		t->devices++;
	}
}

static void take_names(const struct fabric_page *p, struct control_table *t)
{
	if (p->magic != PAGE_MAGIC || p->version != PAGE_VERSION || p->devices > PAGE_NAMED)
		return;
	for (uint32_t i = 0; i < p->devices && is_name(p->device[i].name, strnlen(p->device[i].name, PAGE_NAME)); i++) {
		memcpy(t->device[i].name, p->device[i].name, PAGE_NAME);
		t->devices++;
	}
}

static void read_page(int fd, struct control_table *t)
{
	const size_t bytes = offsetof(struct fabric_page, slot_generation);
	struct fabric_page *p = malloc(sizeof(*p));

	if (p && pread(fd, p, bytes, 0) == (ssize_t)bytes)
		take_names(p, t);
	free(p);
}

/* The files of the tree come and go one by one, with the first program and after the last: in the page all names are there, or
 * none. Only its user may read it. */
void control_table_names(const char *dir, struct control_table *t)
{
	char path[256];
	int fd;

	*t = (struct control_table){ 0 };
	snprintf(path, sizeof(path), "%s/" CONTROL_OWN "/page", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0) {
		read_page(fd, t);
		close(fd);
	} else if (errno == EACCES) {
		read_tree(dir, t);
	}
	if (!t->devices)
		*t = control_default;
}

int control_devices_listed(const char *list, const struct control_table *t, unsigned *named)
{
	size_t length;
	int err = 0;

	*named = *list ? 0 : ~0u;
	for (; *list; list += length + (list[length] == ',')) {
		uint32_t i;

		length = strcspn(list, ",");
		i = control_table_find(t, list, length);
		if (i < t->devices)
			*named |= 1u << i;
		else
			err = -EINVAL;
	}
	return err;
}

const struct device_protocol *control_device_protocol(const struct page_device *d)
{
	return d->protocol < PAGE_PROTOCOLS ? protocols[d->protocol] : NULL;
}

bool control_device_has(const struct page_device *d, enum device_cap cap)
{
	const struct device_protocol *protocol = control_device_protocol(d);

	return protocol && protocol->caps & cap;
}
