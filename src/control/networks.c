/* Only the sockets' names are looked at: a directory that belongs to somebody else than its name says is nobody's network. */
#include "control/networks.h"

#include "base/log.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORY = 96 };	/* as RUNDIR_PATH */

static bool is_number(const char *text, uid_t *number)
{
	char *end;

	*number = (uid_t)strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == '\0';
}

bool networks_is_served(const char *dir, uid_t uid)
{
	char path[DIRECTORY + 8];
	struct stat st;

	if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != uid)
		return false;
	snprintf(path, sizeof(path), "%s/ctl", dir);
	return lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == uid;
}

/* Another user's directory may be closed to us; weftd removes it when it exits. */
static bool is_closed(const char *dir, uid_t uid)
{
	struct stat st;

	return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid && uid != geteuid() && access(dir, X_OK);
}

struct search {
	const char *own;
	void (*visit)(void *arg, const char *dir, uid_t owner);
	void *arg;
};

static void look(const struct search *s, const char *dir, uid_t owner)
{
	if (strcmp(dir, s->own) != 0 && (networks_is_served(dir, owner) || is_closed(dir, owner)))
		s->visit(s->arg, dir, owner);
}

/* Names of `above` that begin with `prefix` and go on with a user's number. */
static void look_below(const struct search *s, const char *above, const char *prefix, const char *suffix)
{
	char dir[DIRECTORY];
	DIR *list = opendir(above);
	const struct dirent *e;
	uid_t owner;

	while (list && (e = readdir(list))) {
		if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 || !is_number(e->d_name + strlen(prefix), &owner))
			continue;
		if (snprintf(dir, sizeof(dir), "%s/%s%s", above, e->d_name, suffix) < (int)sizeof(dir))
			look(s, dir, owner);
	}
	if (list)
		closedir(list);
}

void networks_visit(const char *own, void (*visit)(void *arg, const char *dir, uid_t owner), void *arg)
{
	struct search s = { own, visit, arg };

	look(&s, "/run/weft", 0);
	look_below(&s, "/run/user", "", "/weft");
	look_below(&s, "/tmp", "weft-", "");
}

struct text {
	char *to;
	size_t at, room;
};

static void describe(void *arg, const char *dir, uid_t owner)
{
	struct text *t = arg;
	int n = snprintf(t->to + t->at, t->room - t->at, "%s%s (user %u)", t->at ? ", " : "", dir, owner);

	if ((size_t)n < t->room - t->at)
		t->at += (size_t)n;
	else
		t->to[t->at] = '\0';
}

bool networks_describe(const char *own, char *to, size_t room)
{
	struct text t = { to, 0, room };

	to[0] = '\0';
	networks_visit(own, describe, &t);
	return t.at > 0;
}

void networks_tell_missing(const char *own, const char *what)
{
	char others[512];

	if (networks_describe(own, others, sizeof(others)))
		log_line(LOG_ERROR, "no process of the network in %s has %s, but there are other networks: %s. "
			 "Processes meet when they are started by the same user, or with the same WEFT_DIR", own, what, others);
	else
		log_line(LOG_INFO, "no process of the network in %s has %s", own, what);
}
