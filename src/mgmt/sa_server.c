#include "mgmt/sa_server.h"

#include "wire/field.h"
#include "wire/sa.h"

#include <stdlib.h>
#include <string.h>

#define METHOD 3, 0, 8
#define TID 8, 0, 64
#define ATTRIBUTE 16, 0, 16
#define KEY 24, 0, 64

enum { METHOD_RESPONSE = 0x80 };

enum { SUBNET_TIMEOUT_UNKNOWN = 10 };	/* our choice: 4 ms of flight, where no port says how long it is */

const struct series_config sa_live_config = { .subnet_timeout = SUBNET_TIMEOUT_UNKNOWN, .response_time = SA_RESPONSE_TIME,
					      .retries = SERIES_TRIES };

/* Where a record begins in an answer, and of which table it is. */
struct mark {
	uint32_t offset, table;
};

struct sa_session {
	struct list_node node;		/* sa_server.sessions */
	struct transaction t;
	uint16_t lid, attribute;
	uint64_t tid;
	struct sa_question question;
	uint64_t version;		/* of the tables, when the answer was gathered last */
	uint8_t *answer;		/* owned */
	uint32_t bytes, room;
	struct mark *mark;		/* owned: of each record */
	uint32_t marks, marks_room;
	uint64_t number;		/* a later one has a greater one */
	uint32_t granted;		/* bytes: of a Config that comes, behind its first window */
	bool waits;			/* for room for its next one */
};

void sa_server_init(struct sa_server *s, const struct series_config *c)
{
	*s = (struct sa_server){ .config = *c, .longest_kb = SA_LONGEST_KB };
	s->config.most = SA_CONFIG_BYTES;
	list_init(&s->sessions);
}

static uint64_t bytes_of(const struct sa_session *n)
{
	return n->room + n->marks_room * sizeof(*n->mark);
}

static void free_answer(struct sa_server *s, struct sa_session *n)
{
	s->bytes -= bytes_of(n);
	free(n->answer);
	free(n->mark);
	n->answer = NULL;
	n->mark = NULL;
	n->room = n->marks_room = n->marks = 0;
}

static bool is_coming(const struct sa_session *n)
{
	return n->t.method == TXN_CONFIG && n->t.phase == TXN_RECEIVING;
}

static void free_config(struct sa_server *s, struct sa_session *n)
{
	s->config_bytes -= n->granted;
	n->granted = 0;
	series_in_fini(&n->t.in);
}

static void session_free(struct sa_server *s, struct sa_session *n)
{
	list_remove(&n->node);
	s->count--;
	free_config(s, n);
	transaction_fini(&n->t);
	free_answer(s, n);
	free(n);
}

void sa_server_fini(struct sa_server *s)
{
	list_for_each_safe(n, &s->sessions, struct sa_session, node)
		session_free(s, n);
}

/* ---- answers ---- */

static uint64_t version_of(const struct sa_server *s)
{
	return (s->version ? s->version(s->arg) : 0) + (s->store ? s->store->changes : 0);
}

static uint64_t longest(const struct sa_server *s)
{
	return (uint64_t)s->longest_kb << 10;
}

/* Who has none yet has as much as others of several LIDs together. */
static bool may_grow(const struct sa_server *s, uint16_t lid, uint64_t more)
{
	uint64_t of_one = more;

	list_for_each(n, &s->sessions, struct sa_session, node)
		of_one += n->lid == lid ? bytes_of(n) : 0;
	return s->bytes + more + of_one <= SA_ANSWERS * longest(s);
}

static bool grow(struct sa_server *s, uint16_t lid, void **memory, uint32_t *room, uint32_t wanted, size_t each)
{
	uint32_t more = *room ? *room : 64;
	void *grown;

	if (wanted <= *room)
		return true;
	while (more < wanted)
		more *= 2;
	grown = may_grow(s, lid, (more - *room) * each) ? realloc(*memory, more * each) : NULL;
	if (!grown)
		return false;
	s->bytes += (more - *room) * each;
	*memory = grown;
	*room = more;
	return true;
}

static uint32_t head_bytes(const struct sa_session *n)
{
	return n->t.method == TXN_GET_BULK ? SA_BULK_HEAD : 0;
}

static uint16_t append(struct sa_server *s, struct sa_session *n, uint32_t table, const uint8_t *record)
{
	uint32_t head = head_bytes(n), bytes = s->table[table].record_bytes;

	if (n->bytes + head + bytes > longest(s))
		return SA_TOO_MANY_RECORDS;
	if (!grow(s, n->lid, (void **)&n->answer, &n->room, n->bytes + head + bytes, 1) ||
	    !grow(s, n->lid, (void **)&n->mark, &n->marks_room, n->marks + 1, sizeof(*n->mark)))
		return SA_NO_RESOURCES;
	n->mark[n->marks++] = (struct mark){ n->bytes, table };
	if (head) {
		wire_put(n->answer + n->bytes, s->table[table].attribute, 0, 0, 16);
		wire_put(n->answer + n->bytes, bytes, 2, 0, 16);
	}
	memcpy(n->answer + n->bytes + head, record, bytes);
	n->bytes += head + bytes;
	return 0;
}

/* The name of a record that was begun to be sent. Two may have the same: each stands for one. */
struct begun {
	uint32_t table, met;		/* met: of this name, since then */
	uint8_t id[SA_ID_MOST];
};

static struct begun name_of(const struct sa_server *s, uint32_t table, const uint8_t *record)
{
	struct begun name = { .table = table };

	memcpy(name.id, record, s->table[table].id_bytes);
	return name;
}

static int compare(const void *a, const void *b)
{
	const struct begun *left = a, *right = b;

	if (left->table != right->table)
		return left->table < right->table ? -1 : 1;
	return memcmp(left->id, right->id, SA_ID_MOST);
}

/* What its marks are of, in order. NULL: there is no memory. */
static struct begun *list_begun(const struct sa_server *s, const struct sa_session *n)
{
	struct begun *begun = malloc((n->marks + 1) * sizeof(*begun));

	for (uint32_t i = 0; begun && i < n->marks; i++)
		begun[i] = name_of(s, n->mark[i].table, n->answer + n->mark[i].offset + head_bytes(n));
	if (begun)
		qsort(begun, n->marks, sizeof(*begun), compare);
	return begun;
}

/* Was this record begun? It has been met then. */
static bool was_begun(struct begun *begun, uint32_t count, const struct begun *name)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare(&begun[middle], name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == count || low + begun[low].met >= count || compare(&begun[low + begun[low].met], name) != 0)
		return false;
	begun[low].met++;
	return true;
}

/* Adds the records of a table but those that were begun, so many. A status, 0: all are there. */
static uint16_t gather_table(struct sa_server *s, struct sa_session *n, uint32_t i, struct begun *begun, uint32_t count)
{
	const struct sa_table *table = &s->table[i];
	uint8_t record[SA_RECORD_MOST];
	uint16_t status = 0;
	uint32_t at = 0;

	while (!status && table->give(table->arg, &n->question, &at, record)) {
		const struct begun name = name_of(s, i, record);

		if (!was_begun(begun, count, &name))
			status = append(s, n, i, record);
	}
	return status;
}

static bool is_wanted(const struct sa_server *s, const struct sa_session *n, uint32_t i)
{
	return n->t.method == TXN_GET_BULK ? !s->table[i].is_apart : s->table[i].attribute == n->attribute;
}

static uint16_t gather(struct sa_server *s, struct sa_session *n, struct begun *begun, uint32_t count)
{
	uint16_t status = 0;
	bool is_known = n->t.method == TXN_GET_BULK;

	for (uint32_t i = 0; i < s->tables; i++)
		is_known |= s->table[i].attribute == n->attribute;
	if (!is_known)
		return SA_REQUEST_INVALID;
	for (uint32_t i = 0; !status && i < s->tables; i++) {
		if (is_wanted(s, n, i))
			status = gather_table(s, n, i, begun, count);
	}
	return status;
}

static void answer_table(struct sa_server *s, wtime now, struct sa_session *n)
{
	uint16_t status;

	n->version = version_of(s);
	status = gather(s, n, NULL, 0);
	transaction_answer(&n->t, now, status, n->answer, status ? 0 : n->bytes, true);
}

/* Adds what there is behind the records that were begun. */
static uint16_t gather_rest(struct sa_server *s, struct sa_session *n)
{
	const struct sa_table *last = n->marks ? &s->table[n->mark[n->marks - 1].table] : NULL;
	uint32_t count = n->marks;
	struct begun *begun;
	uint16_t status;

	if (last && last->is_known && !last->is_known(last->arg, &n->question))
		return MAD_STATUS_BUSY;
	begun = list_begun(s, n);
	status = begun ? gather(s, n, begun, count) : SA_NO_RESOURCES;
	free(begun);
	return status;
}

/* The answer may have changed behind what was begun to be sent. If it cannot be gone on with, or there is no room for what it has
 * become, that ends it. */
static void refresh(struct sa_server *s, wtime now, struct sa_session *n)
{
	uint64_t version = version_of(s), sent = (uint64_t)n->t.out.sent * SERIES_DATA;
	uint16_t status;

	if (n->t.phase != TXN_SENDING || n->t.method == TXN_CONFIG || n->t.out.end || version == n->version)
		return;
	n->version = version;
	while (n->marks && n->mark[n->marks - 1].offset >= sent)
		n->bytes = n->mark[--n->marks].offset;
	status = gather_rest(s, n);
	transaction_answer(&n->t, now, status, n->answer, n->bytes, true);
}

/* What fills whole data areas may be padded: zeros in the last one that belong to no edit are nothing then. */
static uint32_t edits_bytes(const struct series_in *in)
{
	uint32_t bytes = in->bytes, least = bytes % SERIES_DATA ? bytes : bytes - SERIES_DATA;

	while (bytes > least && !in->data[bytes - 1])
		bytes--;
	bytes += (SA_EDIT_BYTES - bytes % SA_EDIT_BYTES) % SA_EDIT_BYTES;
	return bytes < in->bytes ? bytes : in->bytes;
}

static void answer_config(struct sa_server *s, wtime now, struct sa_session *n)
{
	uint32_t bytes = 0;
	uint16_t status = 0;

	n->answer = s->store ? sa_store_edit(s->store, n->question.key, n->t.in.data, edits_bytes(&n->t.in), &bytes) : NULL;
	s->configs++;
	if (s->store && !n->answer)
		status = SA_NO_RESOURCES;
	else if (!bytes)
		status = SA_REQUEST_INVALID;
	transaction_answer(&n->t, now, status, n->answer, bytes, true);
}

static void answer(struct sa_server *s, wtime now, struct sa_session *n)
{
	if (n->t.phase != TXN_PREPARING)
		return;
	if (n->t.method == TXN_CONFIG)
		answer_config(s, now, n);
	else
		answer_table(s, now, n);
}

/* ---- Configs that come ---- */

enum { WINDOW_BYTES = SERIES_WINDOW * SERIES_DATA };

static const struct sa_session *oldest_config(const struct sa_server *s)
{
	const struct sa_session *oldest = NULL;

	list_for_each(n, &s->sessions, struct sa_session, node) {
		if (is_coming(n) && (!oldest || n->number < oldest->number))
			oldest = n;
	}
	return oldest;
}

/* The oldest may always: others have not taken what it needs, and when it has come the next one is the oldest. */
static bool has_room(const struct sa_server *s, const struct sa_session *n)
{
	const struct sa_session *oldest = oldest_config(s);
	uint64_t all = s->config_bytes - oldest->granted + WINDOW_BYTES, of_one = WINDOW_BYTES;

	list_for_each(other, &s->sessions, struct sa_session, node)
		of_one += other != oldest && other->lid == n->lid ? other->granted : 0;
	return n == oldest || all + of_one <= SA_CONFIGS_BYTES;
}

/* A window that is full is acknowledged when there is room for a whole further one (RMP-28); till then its sender hears
 * KeepAlives (RMP-43). */
static void grant_windows(struct sa_server *s, wtime now)
{
	list_for_each(n, &s->sessions, struct sa_session, node) {
		bool waited = n->waits;

		n->waits = is_coming(n) && n->t.in.is_held && !has_room(s, n);
		s->held += n->waits && !waited;
		if (!is_coming(n) || !n->t.in.is_held || n->waits)
			continue;
		n->granted += WINDOW_BYTES;
		s->config_bytes += WINDOW_BYTES;
		transaction_space(&n->t, now, SERIES_WINDOW);
	}
}

/* ---- sessions ---- */

static struct sa_session *find(const struct sa_server *s, uint16_t lid, const uint8_t *mad)
{
	list_for_each(n, &s->sessions, struct sa_session, node) {
		if (n->lid == lid && n->tid == wire_get(mad, TID) && (unsigned)n->t.method == (unsigned)wire_get(mad, METHOD))
			return n;
	}
	return NULL;
}

/* A Config that was done would be done again if it were forgotten, and its last packet came again (RMP-53). */
static bool is_kept(const struct sa_session *n)
{
	return n->t.phase >= TXN_DONE && n->t.method == TXN_CONFIG && n->t.in.is_done;
}

/* What is under way will be kept. Who has none yet has as many as others of several LIDs together. */
static bool may_keep(const struct sa_server *s, uint16_t lid)
{
	uint32_t all = 0, of_one = 0;

	list_for_each(n, &s->sessions, struct sa_session, node) {
		bool counts = n->t.method == TXN_CONFIG && (n->t.phase < TXN_DONE || is_kept(n));

		all += counts;
		of_one += counts && n->lid == lid;
	}
	return all + of_one < SA_CONFIGS_KEPT;
}

/* Those that are over but for what may be repeated make room, the oldest first. */
static bool make_place(struct sa_server *s, uint16_t lid)
{
	uint32_t all = 0, of_one = 0;

	list_for_each(n, &s->sessions, struct sa_session, node) {
		all += !is_kept(n);
		of_one += !is_kept(n) && n->lid == lid;
	}
	if (all < SA_SESSIONS && of_one < SA_SESSIONS_OF_ONE)
		return true;
	list_for_each_safe(n, &s->sessions, struct sa_session, node) {
		if (n->t.phase < TXN_DONE || is_kept(n) || (of_one >= SA_SESSIONS_OF_ONE && n->lid != lid))
			continue;
		session_free(s, n);
		return true;
	}
	return false;
}

static struct sa_session *begin(struct sa_server *s, wtime now, uint16_t lid, const uint8_t *mad)
{
	struct sa_session *n;
	struct transaction t;
	bool may;

	if (!transaction_serve(&t, &s->config, now, mad))
		return NULL;
	may = t.method != TXN_CONFIG || may_keep(s, lid);
	n = may && make_place(s, lid) ? calloc(1, sizeof(*n)) : NULL;
	if (!n) {
		s->refused++;
		transaction_fini(&t);
		return NULL;
	}
	n->t = t;
	n->lid = lid;
	n->tid = wire_get(mad, TID);
	n->attribute = (uint16_t)wire_get(mad, ATTRIBUTE);
	n->question = (struct sa_question){ wire_get(mad, KEY), lid };
	list_append(&s->sessions, &n->node);
	s->count++;
	n->number = s->asked++;
	/* beyond the first window, which it does not ask for, room is granted */
	if (is_coming(n))
		transaction_space(&n->t, now, 0);
	return n;
}

/* Of an answer one packet alone may be repeated still. */
static void forget_what_has_come(struct sa_server *s, struct sa_session *n)
{
	if (!is_coming(n))
		free_config(s, n);
	if (n->t.phase >= TXN_DONE && n->t.out.end != 1)
		free_answer(s, n);
}

void sa_server_input(struct sa_server *s, wtime now, uint16_t lid, const uint8_t mad[MAD_BYTES])
{
	struct sa_session *n = find(s, lid, mad);

	if (!n)
		n = begin(s, now, lid, mad);
	if (!n)
		return;
	transaction_input(&n->t, now, mad);
	answer(s, now, n);
	forget_what_has_come(s, n);
	grant_windows(s, now);
}

bool sa_server_output(struct sa_server *s, wtime now, uint16_t *lid, uint8_t mad[MAD_BYTES])
{
	list_for_each(n, &s->sessions, struct sa_session, node) {
		refresh(s, now, n);
		if (!transaction_output(&n->t, now, mad))
			continue;
		*lid = n->lid;
		/* its turn comes again behind the others' */
		list_remove(&n->node);
		list_append(&s->sessions, &n->node);
		return true;
	}
	return false;
}

void sa_server_expire(struct sa_server *s, wtime now)
{
	list_for_each_safe(n, &s->sessions, struct sa_session, node) {
		transaction_expire(&n->t, now);
		forget_what_has_come(s, n);
		if (transaction_is_over(&n->t, now))
			session_free(s, n);
	}
	grant_windows(s, now);
}

wtime sa_server_deadline(const struct sa_server *s)
{
	wtime at = WTIME_NEVER;

	list_for_each(n, &s->sessions, struct sa_session, node)
		at = wtime_min(at, transaction_deadline(&n->t));
	return at;
}
