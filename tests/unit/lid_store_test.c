/* LIDs of ports, kept in a database from one weftd to the next, whatever becomes of the file. */
#include "base/log.h"
#include "weftd/lid_store.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PORT_A 0x0002c90300000001u
#define PORT_B 0xfff2c90300000002u	/* a negative number to SQLite */
#define PORT_C 3u

enum { LID_A = 7, LID_B = 0xbfff, LID_C = 9, MANY = 20000 };

struct lid {
	uint64_t guid;
	uint16_t lid;
};

static struct world {
	char path[40];
	struct rundir dir;
	struct lid_store store;
	struct lid read[8];
	unsigned lids;
	char told[1200];		/* the last warning */
	unsigned warnings;
} *w;

static void note(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	w->warnings += level <= LOG_WARNING;
	snprintf(w->told, sizeof(w->told), "%s", line);
}

static int set_up(void **state)
{
	(void)state;
	w = calloc(1, sizeof(*w));
	assert_non_null(w);
	strcpy(w->path, "/tmp/weft-lids-XXXXXX");
	assert_non_null(mkdtemp(w->path));
	w->dir.own = open(w->path, O_RDONLY | O_DIRECTORY);
	assert_true(w->dir.own >= 0);
	log_set_sink(note, NULL, LOG_WARNING);
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	lid_store_close(&w->store);
	log_set_sink(NULL, NULL, LOG_WARNING);
	close(w->dir.own);
	snprintf(command, sizeof(command), "rm -r %s", w->path);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

static const char *path_of(const char *name)
{
	static char path[120];

	snprintf(path, sizeof(path), "%s/%s", w->path, name);
	return path;
}

static void take(void *arg, uint64_t guid, uint16_t lid)
{
	(void)arg;
	assert_true(w->lids < sizeof(w->read) / sizeof(w->read[0]));
	w->read[w->lids++] = (struct lid){ guid, lid };
}

/* As the next weftd does. How many are kept. */
static unsigned begin(void)
{
	lid_store_close(&w->store);
	lid_store_open(&w->store, &w->dir);
	w->lids = 0;
	lid_store_read(&w->store, take, NULL);
	return w->lids;
}

static uint16_t lid_of(uint64_t guid)
{
	uint16_t lid = 0;

	for (unsigned i = 0; i < w->lids; i++)
		lid = w->read[i].guid == guid ? w->read[i].lid : lid;
	return lid;
}

static bool give(void *arg, uint64_t *guid, uint16_t *lid)
{
	const struct lid **at = arg;

	*guid = (*at)->guid;
	*lid = (*at)->lid;
	return (*at)++->guid;
}

static int put(const struct lid *lids)
{
	return lid_store_write(&w->store, give, &lids);
}

#define PUT(...) put((const struct lid[]){ __VA_ARGS__, { 0, 0 } })

/* ---- what is kept ---- */

static void the_next_knows_them(void **state)
{
	assert_int_equal(begin(), 0);
	assert_int_equal(PUT({ PORT_A, LID_A }, { PORT_B, LID_B }), 0);
	assert_int_equal(begin(), 2);
	assert_int_equal(lid_of(PORT_A), LID_A);
	assert_int_equal(lid_of(PORT_B), LID_B);
	/* a port that is away keeps its own, however often the others are written */
	assert_int_equal(PUT({ PORT_A, LID_C }), 0);
	assert_int_equal(begin(), 2);
	assert_int_equal(lid_of(PORT_A), LID_C);
	assert_int_equal(lid_of(PORT_B), LID_B);
	/* until it is another's */
	assert_int_equal(PUT({ PORT_C, LID_B }, { PORT_A, LID_A }), 0);
	assert_int_equal(begin(), 2);
	assert_int_equal(lid_of(PORT_A), LID_A);
	assert_int_equal(lid_of(PORT_B), 0);
	assert_int_equal(lid_of(PORT_C), LID_B);
	/* two that change places */
	assert_int_equal(PUT({ PORT_A, LID_B }, { PORT_C, LID_A }), 0);
	assert_int_equal(begin(), 2);
	assert_int_equal(lid_of(PORT_A), LID_B);
	assert_int_equal(lid_of(PORT_C), LID_A);
	assert_int_equal(w->warnings, 0);
}

/* Nothing is written where nothing is new. */
static void what_is_as_it_was_costs_no_write(void **state)
{
	struct stat before, after;

	begin();
	PUT({ PORT_A, LID_A });
	assert_int_equal(stat(path_of(LID_STORE_NAME), &before), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(PUT({ PORT_A, LID_A }), 0);
	assert_int_equal(stat(path_of(LID_STORE_NAME), &after), 0);
	assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim));
}

struct many {
	unsigned next, most;
};

/* Dies when it has given so many. */
static bool give_and_die(void *arg, uint64_t *guid, uint16_t *lid)
{
	struct many *m = arg;

	if (m->next == m->most)
		kill(getpid(), SIGKILL);
	*guid = 1 + m->next;
	*lid = (uint16_t)(MANY - m->next++);
	return true;
}

static void a_weftd_killed_as_it_writes_loses_nothing(void **state)
{
	static const unsigned at[] = { 1, 100, MANY - 1 };

	begin();
	PUT({ PORT_A, LID_A }, { PORT_B, LID_B });
	lid_store_close(&w->store);
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		struct many m = { 0, at[i] };
		pid_t pid = fork();
		int status;

		if (!pid) {
			lid_store_open(&w->store, &w->dir);
			lid_store_write(&w->store, give_and_die, &m);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(begin(), 2);
		assert_int_equal(lid_of(PORT_A), LID_A);
		assert_int_equal(lid_of(PORT_B), LID_B);
		lid_store_close(&w->store);
	}
	assert_int_equal(w->warnings, 0);
}

/* ---- files that are not to be used ---- */

static void make_file(const char *name, const char *text)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void check_file(const char *name, const char *text)
{
	FILE *f = fopen(path_of(name), "r");
	char got[200];

	assert_non_null(f);
	got[fread(got, 1, sizeof(got) - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(got, text);
}

/* Another program's handle. */
static sqlite3 *open_other(const char *name, const char *statements)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path_of(name), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
	return db;
}

static void no_database_is_put_aside(void **state)
{
	char text[40], name[40];

	for (unsigned i = 1; i <= 9; i++) {
		snprintf(text, sizeof(text), "what somebody wrote, time %u\n", i);
		snprintf(name, sizeof(name), LID_STORE_ASIDE "%u", i);
		lid_store_close(&w->store);
		make_file(LID_STORE_NAME, text);
		assert_int_equal(begin(), 0);
		assert_int_equal(w->warnings, i);
		assert_non_null(strstr(w->told, "not a database"));
		assert_non_null(strstr(w->told, name));
		check_file(name, text);
		assert_int_equal(PUT({ PORT_A, LID_A }), 0);
		assert_int_equal(begin(), 1);
		assert_int_equal(w->warnings, i);
	}
	/* no more of them */
	lid_store_close(&w->store);
	make_file(LID_STORE_NAME, "the tenth");
	assert_int_equal(begin(), 0);
	assert_int_equal(PUT({ PORT_A, LID_A }), 0);
	check_file(LID_STORE_NAME, "the tenth");
	check_file(LID_STORE_ASIDE "1", "what somebody wrote, time 1\n");
}

/* Pages in the midst are overwritten. */
static void a_damaged_one_is_put_aside(void **state)
{
	struct lid lids[1000 + 1] = { { 0 } };
	char noise[4096];
	int fd;

	memset(noise, 0xa5, sizeof(noise));
	for (unsigned i = 0; i < 1000; i++)
		lids[i] = (struct lid){ i + 1, (uint16_t)(i + 1) };
	lid_store_open(&w->store, &w->dir);
	assert_int_equal(put(lids), 0);
	lid_store_close(&w->store);
	fd = open(path_of(LID_STORE_NAME), O_WRONLY);
	assert_int_equal(pwrite(fd, noise, sizeof(noise), 2 * sizeof(noise)), sizeof(noise));
	close(fd);
	assert_int_equal(begin(), 0);
	assert_int_equal(w->warnings, 1);
	assert_int_equal(access(path_of(LID_STORE_ASIDE "1"), F_OK), 0);
	assert_int_equal(PUT({ PORT_A, LID_A }), 0);
	assert_int_equal(begin(), 1);
}

static void one_of_another_program_is_put_aside(void **state)
{
#define HEAD "PRAGMA application_id = 0x77656674; PRAGMA user_version = 1;"
#define TABLE "CREATE TABLE lids (guid INTEGER PRIMARY KEY, lid INTEGER NOT NULL UNIQUE);"
	static const struct { const char *statements, *question; } others[] = {
		{ TABLE "INSERT INTO lids VALUES (1, 2)", "SELECT guid, lid FROM lids" },
		{ "PRAGMA application_id = 0x77656674; PRAGMA user_version = 2;" TABLE, "SELECT guid, lid FROM lids" },
		{ HEAD "CREATE TABLE photographs (name)", "SELECT name FROM photographs" },
		{ HEAD "CREATE TABLE lids (guid, lid)", "SELECT guid, lid FROM lids" },
		{ HEAD TABLE "CREATE TRIGGER gone AFTER INSERT ON lids BEGIN DELETE FROM lids; END", "SELECT guid FROM lids" },
		/* whose rows have no end */
		{ HEAD "CREATE VIEW lids AS WITH n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i AS guid, i AS lid FROM n",
		  "SELECT guid, lid FROM lids LIMIT 1" },
	};

	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		char name[40];

		snprintf(name, sizeof(name), LID_STORE_ASIDE "%u", i + 1);
		lid_store_close(&w->store);
		unlink(path_of(LID_STORE_NAME));
		sqlite3_close(open_other(LID_STORE_NAME, others[i].statements));
		assert_int_equal(begin(), 0);
		assert_int_equal(w->warnings, i + 1);
		assert_non_null(strstr(w->told, "another program's"));
		assert_int_equal(PUT({ PORT_A, LID_A }), 0);
		assert_int_equal(begin(), 1);
		/* and is whole there */
		sqlite3_close(open_other(name, others[i].question));
	}
}

/* An index that has another LID than the table. */
static void a_damaged_index_is_put_aside(void **state)
{
	enum { PAGE = 4096 };
	uint8_t page[PAGE], *at;
	int fd;

	begin();
	assert_int_equal(PUT({ PORT_C, 0x1234 }), 0);
	lid_store_close(&w->store);
	fd = open(path_of(LID_STORE_NAME), O_RDWR);
	assert_int_equal(pread(fd, page, PAGE, 2 * PAGE), PAGE);
	at = memmem(page, PAGE, (const uint8_t[]){ 0x12, 0x34 }, 2);
	assert_non_null(at);
	at[1] = 0x35;
	assert_int_equal(pwrite(fd, page, PAGE, 2 * PAGE), PAGE);
	close(fd);
	assert_int_equal(begin(), 0);
	assert_int_equal(w->warnings, 1);
	assert_int_equal(access(path_of(LID_STORE_ASIDE "1"), F_OK), 0);
	assert_int_equal(PUT({ PORT_A, 0x1235 }), 0);
	assert_int_equal(begin(), 1);
}

/* Another program may put text there, and numbers that are not whole. */
static void what_is_no_number_is_no_lid(void **state)
{
	begin();
	PUT({ PORT_A, LID_A });
	lid_store_close(&w->store);
	sqlite3_close(open_other(LID_STORE_NAME, "INSERT INTO lids VALUES (3, 7.5), (4, '7x'), (5, x'37'), (6, 49152), (7, -7)"));
	assert_int_equal(begin(), 1);
	assert_int_equal(lid_of(PORT_A), LID_A);
	assert_int_equal(PUT({ PORT_C, LID_C }), 0);
	assert_int_equal(begin(), 2);
	assert_int_equal(w->warnings, 0);
}

/* What weft did not make stays where it is, and weft does without. */
static void what_is_not_ours_stays(void **state)
{
	static const char *const kinds[] = { "a link", "a folder", "a second name" };

	make_file("elsewhere", "somebody's\n");
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const char *path = path_of(LID_STORE_NAME);
		char elsewhere[120];

		snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", w->path);
		assert_int_equal(i == 0 ? symlink(elsewhere, path) : i == 1 ? mkdir(path, 0700) : link(elsewhere, path), 0);
		assert_int_equal(begin(), 0);
		assert_int_equal(w->warnings, i + 1);
		assert_int_equal(PUT({ PORT_A, LID_A }), 0);
		assert_int_equal(begin(), 0);
		w->warnings = i + 1;
		check_file("elsewhere", "somebody's\n");
		assert_int_equal(i == 1 ? rmdir(path_of(LID_STORE_NAME)) : unlink(path_of(LID_STORE_NAME)), 0);
		assert_int_not_equal(access(path_of(LID_STORE_ASIDE "1"), F_OK), 0);
	}
}

/* ---- others that use it ---- */

static void what_is_in_use_waits(void **state)
{
	sqlite3 *other;

	begin();
	PUT({ PORT_A, LID_A });
	lid_store_close(&w->store);
	other = open_other(LID_STORE_NAME, "BEGIN EXCLUSIVE");
	assert_int_equal(begin(), 0);
	assert_int_equal(w->warnings, 1);
	assert_non_null(strstr(w->told, "in use"));
	assert_int_equal(PUT({ PORT_B, LID_B }), -EBUSY);
	assert_int_equal(PUT({ PORT_B, LID_B }), -EBUSY);
	/* told once */
	assert_int_equal(w->warnings, 1);
	sqlite3_close(other);
	assert_int_equal(PUT({ PORT_B, LID_B }), 0);
	assert_int_equal(begin(), 2);
	/* one that reads is in the way of a commit */
	other = open_other(LID_STORE_NAME, "BEGIN; SELECT * FROM lids");
	assert_int_equal(PUT({ PORT_C, LID_C }), -EBUSY);
	assert_int_equal(w->warnings, 2);
	sqlite3_close(other);
	assert_int_equal(PUT({ PORT_C, LID_C }), 0);
	assert_int_equal(begin(), 3);
	assert_int_not_equal(access(path_of(LID_STORE_ASIDE "1"), F_OK), 0);
}

/* ---- lines ---- */

static void lines_are_taken_over_once(void **state)
{
	make_file("lids", "0002c90300000001 7\n0000000000000000 8\nfff2c90300000002 65535\n0000000000000003 9\n\nand more\n");
	assert_int_equal(begin(), 2);
	assert_int_equal(lid_of(PORT_A), LID_A);
	assert_int_equal(lid_of(PORT_C), LID_C);
	assert_int_not_equal(access(path_of("lids"), F_OK), 0);
	/* the database is newer than lines that come back */
	PUT({ PORT_A, LID_B });
	lid_store_close(&w->store);
	make_file("lids", "0002c90300000001 7\nfff2c90300000002 49151\nfff2c90300000002 8\n");
	assert_int_equal(begin(), 3);
	assert_int_equal(lid_of(PORT_A), LID_B);
	assert_int_equal(lid_of(PORT_B), 8);
	assert_int_equal(w->warnings, 0);
}

static void another_fabric_begins_without(void **state)
{
	make_file("lids", "0002c90300000001 7\n");
	begin();
	make_file("lids", "0002c90300000001 7\n");
	make_file(LID_STORE_ASIDE "1", "somebody's\n");
	lid_store_close(&w->store);
	lid_store_remove(&w->dir);
	assert_int_equal(begin(), 0);
	check_file(LID_STORE_ASIDE "1", "somebody's\n");
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD(the_next_knows_them),
		WORLD(what_is_as_it_was_costs_no_write),
		WORLD(a_weftd_killed_as_it_writes_loses_nothing),
		WORLD(no_database_is_put_aside),
		WORLD(a_damaged_one_is_put_aside),
		WORLD(one_of_another_program_is_put_aside),
		WORLD(a_damaged_index_is_put_aside),
		WORLD(what_is_no_number_is_no_lid),
		WORLD(what_is_not_ours_stays),
		WORLD(what_is_in_use_waits),
		WORLD(lines_are_taken_over_once),
		WORLD(another_fabric_begins_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
