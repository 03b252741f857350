/* The database of LIDs between one weftd and the next. The input says what the directory has before weftd begins: any bytes, or a
 * database that weft made, damaged or changed by another program; and what weftd writes then. What is read makes sense, what is
 * written is read by the next one, and what cannot be used is where it was, or aside, as it was. */
#include "fuzz.h"

#include "base/log.h"
#include "fabric/topology.h"
#include "weftd/lid_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	IMAGES = 3, ROWS = 400,
	PORTS = 3 * ROWS,		/* at most: a commit that was cut off has doubled them */
	CHANGES = 12, ROUNDS = 6, GIVEN = 8,
	ASIDE_MOST = 9,
	BYTES_MOST = 1 << 24,		/* of a file: many times what ROWS take */
	NONE = -1,			/* bytes of a file that is not there */
};

#define ELSEWHERE "elsewhere"
#define WAL LID_STORE_NAME "-wal"

struct port {
	uint64_t guid;
	uint16_t lid;
};

struct ports {
	struct port port[PORTS];
	unsigned count;
	bool is_taken[LIDS];		/* as they were read */
};

struct file {
	uint8_t *data;			/* owned */
	ssize_t bytes;
};

static char path[64];
static struct rundir dir = { .fd = -1, .own = -1 };
static struct file image[IMAGES];	/* what weft makes of so many rows */
static const unsigned rows[IMAGES] = { 0, 3, ROWS };

/* ---- files ---- */

/* What is beyond BYTES_MOST, as a journal may say that there is, is not looked at. */
static struct file read_file(const char *name)
{
	struct file f = { NULL, NONE };
	int fd = openat(dir.own, name, O_RDONLY | O_NOFOLLOW);
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
		size_t bytes = st.st_size < BYTES_MOST ? (size_t)st.st_size : BYTES_MOST;

		f.data = malloc(bytes + 1);
		REQUIRE(f.data);
		f.bytes = read(fd, f.data, bytes);
	}
	if (fd >= 0)
		close(fd);
	return f;
}

static bool is_same(const struct file *a, const struct file *b)
{
	return a->bytes == b->bytes && (a->bytes <= 0 || !memcmp(a->data, b->data, (size_t)a->bytes));
}

static void write_file(const char *name, const void *data, size_t bytes)
{
	int fd = openat(dir.own, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);

	/* it may be a link or a folder */
	if (fd < 0)
		return;
	REQUIRE(write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

static void empty_directory(void)
{
	DIR *d = opendir(path);
	const struct dirent *e;

	REQUIRE(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && unlinkat(dir.own, e->d_name, 0))
			REQUIRE(!unlinkat(dir.own, e->d_name, AT_REMOVEDIR));
	closedir(d);
}

static void name_aside(char name[32], unsigned number)
{
	snprintf(name, 32, LID_STORE_ASIDE "%u", number);
}

/* ---- weftd ---- */

static void keep(void *arg, uint64_t guid, uint16_t lid)
{
	struct ports *p = arg;

	REQUIRE(lid && lid < LIDS && p->count < PORTS);
	REQUIRE(!p->is_taken[lid]);
	p->is_taken[lid] = true;
	p->port[p->count++] = (struct port){ guid, lid };
}

static int by_guid(const void *a, const void *b)
{
	uint64_t x = ((const struct port *)a)->guid, y = ((const struct port *)b)->guid;

	return x < y ? -1 : x > y;
}

/* Each GUID once. */
static void sort(struct ports *p)
{
	qsort(p->port, p->count, sizeof(p->port[0]), by_guid);
	for (unsigned i = 1; i < p->count; i++)
		REQUIRE(p->port[i - 1].guid != p->port[i].guid);
}

static bool give(void *arg, uint64_t *guid, uint16_t *lid)
{
	struct port **at = arg;

	if (!(*at)->lid)
		return false;
	*guid = (*at)->guid;
	*lid = (*at)++->lid;
	return true;
}

/* What is to be read when this has been written. */
static void put(struct ports *p, struct port one)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->count; i++)
		if (p->port[i].guid != one.guid && p->port[i].lid != one.lid)
			p->port[n++] = p->port[i];
	p->port[n++] = one;
	p->count = n;
}

static void check_same(struct ports *a, struct ports *b)
{
	sort(a);
	sort(b);
	REQUIRE(a->count == b->count);
	for (unsigned i = 0; i < a->count; i++)
		REQUIRE(a->port[i].guid == b->port[i].guid && a->port[i].lid == b->port[i].lid);
}

static void begin(struct lid_store *s, struct ports *p)
{
	lid_store_open(s, &dir);
	p->count = 0;
	memset(p->is_taken, 0, sizeof(p->is_taken));
	lid_store_read(s, keep, p);
	sort(p);
}

/* ---- another program ---- */

static sqlite3 *open_other(void)
{
	char name[96];
	sqlite3 *db;

	snprintf(name, sizeof(name), "%s/" LID_STORE_NAME, path);
	if (sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL)) {
		sqlite3_close(db);
		return NULL;
	}
	sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
	return db;
}

static void run(const char *statement)
{
	sqlite3 *db = open_other();

	if (db)
		sqlite3_exec(db, statement, NULL, NULL, NULL);
	sqlite3_close(db);
}

static void change_row(struct input *in)
{
	static const char *const values[] = { "%lld", "'%lld'", "%lld.5", "x'%016llx'", "NULL + %lld", "'%lldx'", "-%lld" };
	uint8_t what = take_byte(in), how = take_byte(in);
	char value[40], text[160];

	snprintf(value, sizeof(value), values[how % 7], (long long)take(in, how & 0x80 ? 7 : 2));
	snprintf(text, sizeof(text), how & 8 ? "UPDATE OR IGNORE lids SET lid = %s WHERE guid %% 7 = %u" :
		 how & 16 ? "INSERT OR REPLACE INTO lids (lid, guid) VALUES (%s, %u)" :
		 "INSERT OR REPLACE INTO lids (guid, lid) VALUES (%s, %u)", value, what);
	run(text);
}

static void change_pragma(struct input *in)
{
	static const char *const texts[] = {
		"PRAGMA user_version = %u", "PRAGMA application_id = %u", "PRAGMA journal_mode = %s",
		"PRAGMA page_size = %u; VACUUM", "PRAGMA auto_vacuum = %u; VACUUM",
		"PRAGMA encoding = 'UTF-16'; PRAGMA page_size = %u; VACUUM",
	};
	static const char *const modes[] = { "delete", "truncate", "persist", "wal" };
	uint8_t what = take_byte(in), value = take_byte(in);
	char text[120];

	if (what % 6 == 2)
		snprintf(text, sizeof(text), "PRAGMA journal_mode = %s", modes[value % 4]);
	else
		snprintf(text, sizeof(text), texts[what % 6], what % 6 < 2 || what % 6 == 4 ? value : 512u << value % 8);
	run(text);
}

static void change_schema(struct input *in)
{
#define INSTEAD "DROP TABLE lids; CREATE "
	static const char *const texts[] = {
		"DROP TABLE lids", "ALTER TABLE lids RENAME TO others", "ALTER TABLE lids ADD COLUMN more DEFAULT 5",
		"ALTER TABLE lids RENAME COLUMN lid TO lmc", "CREATE INDEX other ON lids (lid)", "CREATE TABLE other (a, b)",
		INSTEAD "TABLE lids (guid, lid); INSERT INTO lids VALUES (1, 2), (1, 3), (4, 3)",
		INSTEAD "TABLE lids (guid INTEGER PRIMARY KEY, lid UNIQUE); INSERT INTO lids VALUES (1, '2'), (3, 2)",
		INSTEAD "TABLE lids (guid PRIMARY KEY, lid INTEGER NOT NULL UNIQUE) WITHOUT ROWID",
		INSTEAD "VIEW lids AS SELECT 7 AS guid, 8 AS lid",
		INSTEAD "VIEW lids (guid, lid) AS WITH n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i, i FROM n",
		"CREATE TRIGGER gone AFTER INSERT ON lids BEGIN DELETE FROM lids WHERE guid = NEW.guid; END",
		"CREATE TRIGGER no BEFORE INSERT ON lids BEGIN SELECT RAISE (IGNORE); END",
		"CREATE TRIGGER fails BEFORE DELETE ON lids BEGIN SELECT RAISE (ROLLBACK, 'no'); END",
		"CREATE VIEW other AS SELECT * FROM lids", "CREATE VIRTUAL TABLE other USING fts5 (a)",
	};

	run(texts[take_byte(in) % (sizeof(texts) / sizeof(texts[0]))]);
}

/* A commit that was cut off: its journal takes what it has written back. */
static void leave_journal(struct input *in)
{
	uint8_t how = take_byte(in);
	sqlite3 *db = open_other();
	struct file before, journal;

	if (!db)
		return;
	sqlite3_exec(db, "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN; UPDATE lids SET lid = lid + 10000;"
		     "INSERT INTO lids SELECT guid + 100000, lid + 20000 FROM lids WHERE (SELECT count(*) FROM lids) <= 400",
		     NULL, NULL, NULL);
	before = read_file(LID_STORE_NAME);
	journal = read_file(LID_STORE_JOURNAL);
	sqlite3_close(db);
	if (before.bytes > 0 && how & 1)
		write_file(LID_STORE_NAME, before.data, (size_t)before.bytes);
	for (unsigned n = how >> 4; journal.bytes > 0 && n; n--)
		journal.data[take(in, 2) % (size_t)journal.bytes] ^= take_byte(in);
	if (journal.bytes > 0)
		write_file(LID_STORE_JOURNAL, journal.data, (size_t)journal.bytes);
	free(before.data);
	free(journal.data);
}

static void patch(struct input *in)
{
	struct file f = read_file(LID_STORE_NAME);
	size_t at = take(in, 2), n = take_byte(in) % 16;

	for (size_t i = 0; f.bytes > 0 && i < n; i++)
		f.data[(at + i) % (size_t)f.bytes] = take_byte(in);
	if (f.bytes > 0)
		write_file(LID_STORE_NAME, f.data, (size_t)f.bytes);
	free(f.data);
}

static void write_some(struct input *in, const char *name)
{
	size_t bytes = take(in, 2), left = (size_t)(in->end - in->at);

	bytes = bytes < left ? bytes : left;
	write_file(name, in->at, bytes);
	in->at += bytes;
}

static void replace(uint8_t how)
{
	if (unlinkat(dir.own, LID_STORE_NAME, 0))
		unlinkat(dir.own, LID_STORE_NAME, AT_REMOVEDIR);
	if (how % 4 == 0)
		REQUIRE(!symlinkat(ELSEWHERE, dir.own, LID_STORE_NAME));
	else if (how % 4 == 1)
		REQUIRE(!linkat(dir.own, ELSEWHERE, dir.own, LID_STORE_NAME, 0));
	else if (how % 4 == 2)
		REQUIRE(!mkdirat(dir.own, LID_STORE_NAME, 0700));
}

static void fill_aside(uint8_t how)
{
	char name[32];

	for (unsigned i = 1; i <= ASIDE_MOST; i++) {
		name_aside(name, i);
		if (i <= how % 16)
			write_file(name, "somebody's", 10);
	}
}

static void change(struct input *in)
{
	uint8_t what = take_byte(in);

	switch (what % 10) {
	case 0:
		patch(in);
		break;
	case 1:
		change_row(in);
		break;
	case 2:
		change_pragma(in);
		break;
	case 3:
		change_schema(in);
		break;
	case 4:
		leave_journal(in);
		break;
	case 5:
		write_some(in, what & 128 ? LID_STORE_JOURNAL : what & 64 ? WAL : "lids");
		break;
	case 6:
		if (what & 128)
			replace(take_byte(in));
		break;
	case 7:
		fill_aside(take_byte(in));
		break;
	case 8:
		if (!faccessat(dir.own, LID_STORE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) && what & 64) {
			char name[96];

			snprintf(name, sizeof(name), "%s/" LID_STORE_NAME, path);
			(void)!truncate(name, (off_t)take(in, 2));
		}
		break;
	default:
		write_some(in, LID_STORE_NAME);
	}
}

/* ---- what must hold ---- */

struct found {
	struct file store, elsewhere, aside[ASIDE_MOST];
	bool is_alone;			/* nothing is beside it that SQLite may put into it */
};

static void look(struct found *f)
{
	char name[32];

	f->store = read_file(LID_STORE_NAME);
	f->elsewhere = read_file(ELSEWHERE);
	f->is_alone = faccessat(dir.own, LID_STORE_JOURNAL, F_OK, 0) && faccessat(dir.own, WAL, F_OK, 0) &&
		      faccessat(dir.own, "lids", F_OK, 0);
	for (unsigned i = 0; i < ASIDE_MOST; i++) {
		name_aside(name, i + 1);
		f->aside[i] = read_file(name);
	}
}

static void forget(struct found *f)
{
	free(f->store.data);
	free(f->elsewhere.data);
	for (unsigned i = 0; i < ASIDE_MOST; i++)
		free(f->aside[i].data);
}

/* Says its head that it is a database of weft's? */
static bool is_wefts(const struct file *f)
{
	enum { VERSION_AT = 60, APPLICATION_AT = 68 };

	return f->bytes > APPLICATION_AT + 4 && !memcmp(f->data + VERSION_AT, "\0\0\0\1", 4) &&
	       !memcmp(f->data + APPLICATION_AT, "weft", 4);
}

/* It was opened and read. True: what was there is aside. */
static bool check_files(const struct found *before)
{
	bool is_aside = false;
	struct found now;

	look(&now);
	REQUIRE(is_same(&before->elsewhere, &now.elsewhere));
	for (unsigned i = 0; i < ASIDE_MOST; i++) {
		if (is_same(&before->aside[i], &now.aside[i]))
			continue;
		REQUIRE(before->aside[i].bytes == NONE && !is_aside);
		is_aside = true;
		REQUIRE(!before->is_alone || is_same(&before->store, &now.aside[i]));
	}
	/* an empty one becomes one of weft's; SQLite takes one byte for nothing */
	REQUIRE(is_aside || !before->is_alone || before->store.bytes <= 1 || is_same(&before->store, &now.store));
	forget(&now);
	return is_aside;
}

/* Whatever weftd does then. */
static void check_others(const struct found *before)
{
	struct found now;

	look(&now);
	REQUIRE(is_same(&before->elsewhere, &now.elsewhere));
	for (unsigned i = 0; i < ASIDE_MOST; i++)
		REQUIRE(is_same(&before->aside[i], &now.aside[i]));
	forget(&now);
}

/* ---- writing ---- */

static unsigned choose(struct input *in, struct port given[GIVEN + 1])
{
	unsigned n = take_byte(in) % (GIVEN + 1);

	for (unsigned i = 0; i < n; i++) {
		uint8_t what = take_byte(in);

		given[i].guid = what & 1 ? take(in, 8) : what >> 4;
		given[i].lid = (uint16_t)(1 + (what & 2 ? take(in, 2) : what >> 4) % (LIDS - 1));
		given[i].guid += !given[i].guid;
	}
	given[n] = (struct port){ 0, 0 };
	return n;
}

/* Some are written, and the next weftd reads them. */
static void round_of(struct input *in, struct lid_store *s, struct ports *known)
{
	static struct ports wanted, read;
	struct port given[GIVEN + 1], *at = given;
	unsigned n = choose(in, given);
	sqlite3 *other = take_byte(in) & 1 ? open_other() : NULL;
	bool is_busy = other && !sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	int err;

	wanted = *known;
	if (wanted.count + n > PORTS)
		return;
	err = lid_store_write(s, give, &at);
	REQUIRE(!err || (err == -EBUSY && is_busy));
	sqlite3_close(other);
	if (err)
		check_same(&wanted, known);
	for (unsigned i = 0; i < n && !err; i++)
		put(&wanted, given[i]);
	if (!s->db)
		return;
	lid_store_close(s);
	begin(s, &read);
	REQUIRE(s->is_ready);
	check_same(&wanted, &read);
	*known = read;
}

/* ---- the world ---- */

static void note(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	REQUIRE(*line);
}

static void leave(void)
{
	empty_directory();
	rmdir(path);
}

static void make_image(unsigned i)
{
	static struct port given[ROWS + 1];
	struct port *at = given;
	struct lid_store s;

	for (unsigned k = 0; k < ROWS; k++)
		given[k] = k < rows[i] ? (struct port){ k + 1, (uint16_t)(k + 1) } : (struct port){ 0, 0 };
	lid_store_open(&s, &dir);
	REQUIRE(s.is_ready && !lid_store_write(&s, give, &at));
	lid_store_close(&s);
	image[i] = read_file(LID_STORE_NAME);
	REQUIRE(image[i].bytes > 0);
	empty_directory();
}

static void set_up(void)
{
	const char *parent = access("/dev/shm", W_OK) ? getenv("TMPDIR") : "/dev/shm";

	snprintf(path, sizeof(path), "%.40s/weft-fuzz-XXXXXX", parent ? parent : "/tmp");
	REQUIRE(mkdtemp(path));
	dir.own = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	REQUIRE(dir.own >= 0);
	atexit(leave);
	log_set_sink(note, NULL, LOG_WARNING);
	for (unsigned i = 0; i < IMAGES; i++)
		make_image(i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t what = take_byte(&in);
	static struct ports known;
	struct lid_store s;
	struct found before;
	bool was_ready;

	if (dir.own < 0)
		set_up();
	/* SQLite would use it by a link */
	write_file(ELSEWHERE, image[1].data, (size_t)image[1].bytes);
	if (what & 3)
		write_file(LID_STORE_NAME, image[what % 4 - 1].data, (size_t)image[what % 4 - 1].bytes);
	if (what & 4) {
		write_file(LID_STORE_NAME, in.at, (size_t)(in.end - in.at));
		in.at = in.end;
	}
	for (unsigned n = what >> 4; n && in.at < in.end; n--)
		change(&in);
	look(&before);
	begin(&s, &known);
	if ((check_files(&before) || !is_wefts(&before.store)) && before.is_alone)
		REQUIRE(!known.count);
	forget(&before);
	look(&before);
	for (unsigned n = 0; n < ROUNDS && in.at < in.end && s.db; n++)
		round_of(&in, &s, &known);
	was_ready = s.is_ready;
	lid_store_close(&s);
	lid_store_remove(&dir);
	REQUIRE(!was_ready || faccessat(dir.own, LID_STORE_NAME, F_OK, AT_SYMLINK_NOFOLLOW));
	check_others(&before);
	forget(&before);
	empty_directory();
	return 0;
}
