/* Lines that are no ranges are passed over. Who is beyond the first MEBIBYTE of a file counts for himself. */
#include "weftd/subids.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT = 1 << 20 };

/* Decimal digits up to `end`, and nothing else. */
static bool read_number(const char *at, const char *end, uint64_t *number)
{
	*number = 0;
	if (at == end)
		return false;
	for (; at < end; at++) {
		if (*at < '0' || *at > '9' || *number > UINT32_MAX)
			return false;
		*number = *number * 10 + (uint64_t)(*at - '0');
	}
	return *number <= UINT32_MAX;
}

/* passwd(5): name:password:uid. */
static bool find_name(const char *passwd, const char *name, size_t bytes, uint64_t *uid)
{
	for (const char *line = passwd; *line;) {
		const char *end = line + strcspn(line, "\n");
		const char *number = strncmp(line, name, bytes) == 0 && line[bytes] == ':' ? line + bytes + 1 : NULL;

		if (number)
			number = memchr(number, ':', (size_t)(end - number));
		if (number && read_number(number + 1, number + 1 + strcspn(number + 1, ":\n"), uid))
			return true;
		line = *end ? end + 1 : end;
	}
	return false;
}

/* name:first:count */
static bool is_in_line(const char *line, const char *end, uint32_t uid, uint64_t *first)
{
	const char *a = memchr(line, ':', (size_t)(end - line));
	const char *b = a ? memchr(a + 1, ':', (size_t)(end - a - 1)) : NULL;
	uint64_t count;

	return b && read_number(a + 1, b, first) && read_number(b + 1, end, &count) && uid >= *first && uid - *first < count;
}

/* Of the range that has this uid. */
static uint32_t range_user(uint32_t uid, uint32_t own, uint64_t first, uint64_t owner)
{
	if (!subids_is_privileged(owner, own))
		return (uint32_t)owner;
	return subids_is_privileged(first, own) ? uid : (uint32_t)first;
}

uint32_t subids_find(uint32_t uid, uint32_t own, const char *subuid, const char *passwd)
{
	for (const char *line = subuid; *line && !subids_is_privileged(uid, own);) {
		const char *end = line + strcspn(line, "\n");
		size_t name = strcspn(line, ":\n");
		uint64_t first, owner;

		if (is_in_line(line, end, uid, &first)) {
			if (!read_number(line, line + name, &owner) && !find_name(passwd, line, name, &owner))
				owner = first;
			return range_user(uid, own, first, owner);
		}
		line = *end ? end + 1 : end;
	}
	return uid;
}

/* A copy of the file as long as it stays what it was. */
struct file {
	const char *path;
	struct stat seen;
	char *text;		/* owned; TEXT bytes and a terminator */
};

static const char *text_of(struct file *f)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st = { 0 };
	ssize_t n = 0;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		st.st_size = 0;
	if (f->text && st.st_size == f->seen.st_size && st.st_ino == f->seen.st_ino &&
	    st.st_mtim.tv_sec == f->seen.st_mtim.tv_sec && st.st_mtim.tv_nsec == f->seen.st_mtim.tv_nsec)
		goto out;
	if (!f->text)
		f->text = malloc(TEXT + 1);
	if (f->text && st.st_size)
		n = read(fd, f->text, TEXT);
	if (f->text)
		f->text[n > 0 ? n : 0] = '\0';
	f->seen = st;
out:
	if (fd >= 0)
		close(fd);
	return f->text ? f->text : "";
}

uint32_t subids_owner(uint32_t uid, uint32_t own)
{
	static struct file subuid = { .path = "/etc/subuid" }, passwd = { .path = "/etc/passwd" };
	const char *ranges = text_of(&subuid);

	return *ranges ? subids_find(uid, own, ranges, text_of(&passwd)) : uid;
}
