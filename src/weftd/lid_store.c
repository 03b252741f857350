/* SQLite gets the directory by its descriptor (/proc/self/fd), so it is the one that was checked, whatever its path means by now.
 * synchronous=OFF: what a process has written survives its death, and the directory does not survive the machine's. */
#include "weftd/lid_store.h"

#include "base/log.h"
#include "control/protocol.h"
#include "fabric/topology.h"
#include "weftd/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINES_NAME "lids"
#define PLACE CONTROL_OWN "/" LID_STORE_NAME	/* as the log tells it */

enum {
	APPLICATION = 0x77656674,	/* PRAGMA application_id: "weft" */
	VERSION = 1,			/* PRAGMA user_version, of this table */
	ASIDE_MOST = 9,			/* our choice: more files than that say nothing new */
	BUSY_MS = 100,			/* our choice: weftd waits when it begins, and at no other time */
	FOREIGN = -1,			/* beside SQLite's codes: a database of somebody else, or of a later weft */
};

/* As SQLite keeps it. A GUID is a number of 64 bits with a sign here: printf('%016x', guid) shows it. */
#define TABLE "CREATE TABLE lids (guid INTEGER PRIMARY KEY, lid INTEGER NOT NULL UNIQUE)"

static const char kept_nowhere[] = "LIDs are not kept for the next weftd";

/* ---- statements ---- */

static int run(const struct lid_store *s, const char *statement)
{
	return sqlite3_exec(s->db, statement, NULL, NULL, NULL);
}

/* The first column of the first row: a number, or whether it is this text. */
static int ask(const struct lid_store *s, const char *question, const char *text, int64_t *number)
{
	sqlite3_stmt *q;
	int err = sqlite3_prepare_v2(s->db, question, -1, &q, NULL);

	if (err)
		return err;
	err = sqlite3_step(q);
	if (err == SQLITE_ROW && text) {
		const char *said = (const char *)sqlite3_column_text(q, 0);

		*number = said && !strcmp(said, text);
	} else if (err == SQLITE_ROW) {
		*number = sqlite3_column_int64(q, 0);
	}
	sqlite3_finalize(q);
	return err == SQLITE_ROW ? SQLITE_OK : err == SQLITE_DONE ? SQLITE_CORRUPT : err;
}

static int make_table(const struct lid_store *s)
{
	char text[400];

	snprintf(text, sizeof(text), "BEGIN IMMEDIATE; PRAGMA application_id = %d; PRAGMA user_version = %d; " TABLE "; COMMIT",
		 APPLICATION, VERSION);
	return run(s, text);
}

static int check(const struct lid_store *s)
{
	int64_t pages = 0, application = 0, version = 0, is_table = 0, is_sound = 0;
	int err = ask(s, "PRAGMA page_count", NULL, &pages);

	if (!err && !pages)
		return make_table(s);
	if (!err)
		err = ask(s, "PRAGMA application_id", NULL, &application);
	if (!err)
		err = ask(s, "PRAGMA user_version", NULL, &version);
	/* a view of that name, or a trigger, runs what somebody else has written, perhaps without end */
	if (!err)
		err = ask(s, "SELECT group_concat(sql) FROM sqlite_master WHERE tbl_name = 'lids' COLLATE NOCASE", TABLE,
			  &is_table);
	if (!err && (application != APPLICATION || version != VERSION || !is_table))
		return FOREIGN;
	if (!err)
		err = ask(s, "PRAGMA integrity_check(1)", "ok", &is_sound);
	if (!err && !is_sound)
		return SQLITE_CORRUPT;
	return err == SQLITE_ERROR ? FOREIGN : err;
}

static bool is_busy(int err)
{
	return (err & 0xff) == SQLITE_BUSY || (err & 0xff) == SQLITE_LOCKED;
}

static const char *name_of(int err)
{
	return err == FOREIGN ? "it is another program's database, or a later weft's" : sqlite3_errstr(err);
}

/* Once until it is free again. */
static int tell_busy(struct lid_store *s)
{
	if (!s->is_told)
		log_line(LOG_WARNING, PLACE " is in use by another program: LIDs are kept when it is free");
	s->is_told = true;
	return -EBUSY;
}

/* ---- opening ---- */

static int open_database(struct lid_store *s)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" LID_STORE_NAME, s->dir->own);
	err = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (!err) {
		sqlite3_busy_timeout(s->db, BUSY_MS);
		err = run(s, "PRAGMA synchronous = OFF; PRAGMA cache_size = -512; PRAGMA trusted_schema = OFF");
	}
	if (!err)
		err = check(s);
	if (s->db)
		sqlite3_busy_timeout(s->db, 0);
	s->is_ready = !err;
	return err;
}

void lid_store_close(struct lid_store *s)
{
	sqlite3_close(s->db);
	s->db = NULL;
	s->is_ready = false;
}

/* Is the name there and weft's to use, or not there at all? */
static bool may_use(const struct lid_store *s)
{
	int fd = entry_open(s->dir->own, LID_STORE_NAME, O_RDWR | O_CREAT, 0600);

	if (fd >= 0)
		close(fd);
	else
		log_line(LOG_WARNING, PLACE ": %s: %s", fd == -EEXIST ? "weft did not make it, it stays" :
			 strerror(-fd), kept_nowhere);
	return fd >= 0;
}

static void name_aside(char name[64], unsigned number, const char *behind)
{
	snprintf(name, 64, LID_STORE_ASIDE "%u%s", number, behind);
}

/* Also what a commit that was cut off has left, which must not come into the next database. */
static int move(const struct lid_store *s, unsigned number, const char *from, const char *behind)
{
	char name[64];

	name_aside(name, number, behind);
	return renameat2(s->dir->own, from, s->dir->own, name, RENAME_NOREPLACE) && errno != ENOENT ? -errno : 0;
}

static bool put_aside(struct lid_store *s, int why)
{
	char name[64];

	for (unsigned number = 1; number <= ASIDE_MOST; number++) {
		int err = move(s, number, LID_STORE_JOURNAL, "-journal");

		err = err ? err : move(s, number, LID_STORE_NAME, "");
		if (err == -EEXIST)
			continue;
		name_aside(name, number, "");
		if (err)
			log_line(LOG_WARNING, PLACE " cannot be used (%s) nor renamed (%s): %s", name_of(why),
				 strerror(-err), kept_nowhere);
		else
			log_line(LOG_WARNING, PLACE " cannot be used: %s: it is " CONTROL_OWN
				 "/%s now, and weft begins anew", name_of(why), name);
		return !err;
	}
	log_line(LOG_WARNING, PLACE " cannot be used (%s), and %d others are there already: %s",
		 name_of(why), ASIDE_MOST, kept_nowhere);
	return false;
}

/* ---- reading ---- */

/* SQLITE_OK, or what has gone wrong. */
static int read_all(struct lid_store *s, void (*take)(void *arg, uint64_t guid, uint16_t lid), void *arg)
{
	sqlite3_stmt *q;
	/* SQLite keeps 7.5 and text in a column of numbers, and gives the LID 7 for them */
	int err = sqlite3_prepare_v2(s->db, "SELECT guid, lid FROM lids WHERE typeof(lid) = 'integer' ORDER BY lid", -1, &q,
				     NULL);

	if (err)
		return err;
	while ((err = sqlite3_step(q)) == SQLITE_ROW) {
		int64_t lid = sqlite3_column_int64(q, 1);

		if (lid > 0 && lid < LIDS)
			take(arg, (uint64_t)sqlite3_column_int64(q, 0), (uint16_t)lid);
	}
	sqlite3_finalize(q);
	return err == SQLITE_DONE ? SQLITE_OK : err;
}

void lid_store_read(struct lid_store *s, void (*take)(void *arg, uint64_t guid, uint16_t lid), void *arg)
{
	int err = s->is_ready ? read_all(s, take, arg) : SQLITE_OK;

	if (is_busy(err))
		tell_busy(s);
	else if (err)
		log_line(LOG_WARNING, PLACE ": %s: the LIDs in it are not known", name_of(err));
}

/* ---- writing ---- */

enum { STATEMENTS = 2 };	/* for each port, one or two: ?1 is its GUID, ?2 its LID */

/* An entry that is as it was costs no write. */
static int put(sqlite3_stmt *const each[STATEMENTS], uint64_t guid, uint16_t lid)
{
	int err = SQLITE_DONE;

	for (unsigned i = 0; i < STATEMENTS && each[i] && err == SQLITE_DONE; i++) {
		sqlite3_bind_int64(each[i], 1, (int64_t)guid);
		sqlite3_bind_int64(each[i], 2, lid);
		err = sqlite3_step(each[i]);
		sqlite3_reset(each[i]);
	}
	return err == SQLITE_DONE ? SQLITE_OK : err;
}

static int put_all(const struct lid_store *s, const char *const text[STATEMENTS],
		   bool (*give)(void *arg, uint64_t *guid, uint16_t *lid), void *arg)
{
	sqlite3_stmt *each[STATEMENTS] = { NULL, NULL };
	uint64_t guid;
	uint16_t lid;
	int err = SQLITE_OK;

	for (unsigned i = 0; i < STATEMENTS && text[i] && !err; i++)
		err = sqlite3_prepare_v2(s->db, text[i], -1, &each[i], NULL);
	while (!err && give(arg, &guid, &lid))
		err = put(each, guid, lid);
	for (unsigned i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(each[i]);
	return err;
}

static int transact(const struct lid_store *s, const char *const text[STATEMENTS],
		    bool (*give)(void *arg, uint64_t *guid, uint16_t *lid), void *arg)
{
	int err = run(s, "BEGIN IMMEDIATE");

	if (err)
		return err;
	err = put_all(s, text, give, arg);
	if (!err)
		err = run(s, "COMMIT");
	if (err)
		run(s, "ROLLBACK");
	return err;
}

/* ---- lines of an earlier weft ---- */

static bool next_line(void *arg, uint64_t *guid, uint16_t *lid)
{
	FILE *f = arg;

	while (fscanf(f, "%" SCNx64 " %" SCNu16, guid, lid) == 2) {
		if (*guid && *lid && *lid < LIDS)
			return true;
	}
	return false;
}

/* Once. What the database says is newer. */
static void take_lines(const struct lid_store *s)
{
	static const char *const text[STATEMENTS] = { "INSERT OR IGNORE INTO lids VALUES (?1, ?2)", NULL };
	int fd = entry_open(s->dir->own, LINES_NAME, O_RDONLY, 0), err;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (!f && fd >= 0)
		close(fd);
	if (!f)
		return;
	err = transact(s, text, next_line, f);
	fclose(f);
	if (err)
		log_line(LOG_WARNING, "the LIDs of " CONTROL_OWN "/" LINES_NAME " are not taken over: %s", name_of(err));
	else
		entry_remove(s->dir->own, LINES_NAME, S_IFREG);
}

/* ---- its life ---- */

static bool is_of_no_use(int err)
{
	return err == FOREIGN || (err & 0xff) == SQLITE_CORRUPT || (err & 0xff) == SQLITE_NOTADB;
}

/* 0; -EBUSY; -EIO: nothing is kept. */
static int begin(struct lid_store *s)
{
	int err = may_use(s) ? open_database(s) : SQLITE_CANTOPEN;

	if (is_of_no_use(err)) {
		lid_store_close(s);
		err = put_aside(s, err) && may_use(s) ? open_database(s) : SQLITE_CANTOPEN;
	}
	if (is_busy(err))
		return tell_busy(s);
	if (!err) {
		take_lines(s);
		return 0;
	}
	/* without one it was told */
	if (s->db)
		log_line(LOG_WARNING, PLACE ": %s: %s", name_of(err), kept_nowhere);
	lid_store_close(s);
	return -EIO;
}

int lid_store_write(struct lid_store *s, bool (*give)(void *arg, uint64_t *guid, uint16_t *lid), void *arg)
{
	static const char *const text[STATEMENTS] = {
		"DELETE FROM lids WHERE lid = ?2 AND guid <> ?1",
		"INSERT INTO lids VALUES (?1, ?2) ON CONFLICT (guid) DO UPDATE SET lid = ?2 WHERE lid <> ?2",
	};
	int err;

	/* it was busy when weftd began, and who had it may have changed it */
	if (s->db && !s->is_ready) {
		lid_store_close(s);
		err = begin(s);
		if (err)
			return err == -EBUSY ? err : 0;
	}
	if (!s->db)
		return 0;
	err = transact(s, text, give, arg);
	if (is_busy(err))
		return tell_busy(s);
	s->is_told = false;
	if (!err)
		return 0;
	log_line(LOG_WARNING, PLACE ": %s: %s", name_of(err), kept_nowhere);
	lid_store_close(s);
	return 0;
}

void lid_store_open(struct lid_store *s, const struct rundir *dir)
{
	*s = (struct lid_store){ .dir = dir };
	begin(s);
}

void lid_store_remove(const struct rundir *dir)
{
	static const char *const names[] = { LID_STORE_FILES };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		entry_remove(dir->own, names[i], S_IFREG);
}
