/* The page is the proof, and goes last. Without one there may be the log of a weftd that could not start, alone. */
#include "weftd/old_rundir.h"

#include "control/protocol.h"
#include "fabric/page.h"
#include "weftd/entry.h"
#include "weftd/logfile.h"
#include "weftd/state.h"
#include "weftd/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct finding {
	int dir;
	bool has_page, has_log, has_more, has_others;
};

static bool begins_with(int dir, const char *name, uint32_t magic)
{
	int fd = entry_open(dir, name, O_RDONLY, 0);
	uint32_t begin = 0;
	bool is_so;

	if (fd < 0)
		return false;
	is_so = pread(fd, &begin, sizeof(begin), 0) == sizeof(begin) && begin == magic;
	close(fd);
	return is_so;
}

static bool is_empty_file(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

static bool is_socket(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode);
}

static bool is_log(int dir)
{
	int fd = entry_open(dir, "weftd.log", O_RDONLY, 0);
	bool is_so = fd >= 0 && logfile_is_weft(fd);

	if (fd >= 0)
		close(fd);
	return is_so;
}

static bool is_top(void *arg, const char *name)
{
	if (strcmp(name, "sys") != 0 && strcmp(name, "dev") != 0 && strcmp(name, "proc") != 0)
		*(bool *)arg = false;
	return *(bool *)arg;
}

static bool is_tree(int dir)
{
	int fd = entry_enter(dir, "root", 0);
	bool is_so = fd >= 0;

	if (is_so && entry_visit(fd, is_top, &is_so))
		is_so = false;
	if (fd >= 0)
		close(fd);
	return is_so;
}

static bool judge(void *arg, const char *name)
{
	struct finding *f = arg;

	if (strcmp(name, CONTROL_OWN) == 0)
		return true;
	if (strcmp(name, "weftd.log") == 0)
		f->has_others |= !(f->has_log = is_log(f->dir));
	else if (strcmp(name, "page") == 0)
		f->has_others |= !(f->has_page = begins_with(f->dir, name, PAGE_MAGIC));
	else if ((strcmp(name, "claims") == 0 && begins_with(f->dir, name, CLAIMS_MAGIC)) ||
		 (strcmp(name, "lock") == 0 && is_empty_file(f->dir, name)) ||
		 ((strcmp(name, "ctl") == 0 || strcmp(name, "ctl.new") == 0) && is_socket(f->dir, name)) ||
		 (strcmp(name, "root") == 0 && is_tree(f->dir)))
		f->has_more = true;
	else
		f->has_others = true;
	return !f->has_others;
}

static bool is_there(int dir, bool *has_page)
{
	struct finding f = { .dir = dir };

	if (entry_visit(dir, judge, &f) || f.has_others)
		return false;
	*has_page = f.has_page;
	return f.has_page || (f.has_log && !f.has_more);
}

bool old_rundir_is_there(int dir)
{
	bool has_page;

	return is_there(dir, &has_page);
}

int old_rundir_lock(const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd;

	if (dir < 0)
		return -1;
	fd = entry_open(dir, "lock", O_RDONLY, 0);
	close(dir);
	return fd < 0 ? -1 : fd;
}

bool old_rundir_is_served(int dir)
{
	int fd = entry_open(dir, "lock", O_RDONLY, 0);
	bool is_held;

	if (fd < 0)
		return false;
	is_held = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
	close(fd);
	return is_held;
}

void old_rundir_remove(int dir)
{
	bool has_page;

	if (!is_there(dir, &has_page) || !has_page)
		return;
	sysfs_remove(dir, "root");
	entry_remove(dir, "ctl", S_IFSOCK);
	entry_remove(dir, "claims", S_IFREG);
	entry_remove(dir, "lock", S_IFREG);
	entry_remove(dir, "page", S_IFREG);
}
