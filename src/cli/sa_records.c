#include "cli/sa_records.h"

#include "cli/cli.h"
#include "cli/number.h"
#include "cli/output.h"
#include "mgmt/sa_store.h"
#include "mgmt/transaction.h"
#include "wire/field.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name; uint16_t attribute, bytes; } tables[] = {
	{ "nodes", SA_NODE_RECORD_ID, 112 }, { "paths", SA_PATH_RECORD_ID, 64 }, { "kept", SA_KEPT_ATTRIBUTE, SA_KEPT_BYTES },
	{ "ports", SA_PORT_INFO_RECORD_ID, 72 }, { "switches", SA_SWITCH_INFO_RECORD_ID, 24 }, { "links", SA_LINK_RECORD_ID, 8 },
	{ "managers", SA_SM_INFO_RECORD_ID, 32 }, { "members", SA_MCMEMBER_RECORD_ID, 56 },
	{ "subscriptions", SA_INFORM_RECORD_ID, 64 }, { "lfts", SA_LFT_RECORD_ID, 72 }, { "mfts", SA_MFT_RECORD_ID, 72 },
};

enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

bool sa_records_find(const char *name, uint16_t *attribute)
{
	uint64_t number;

	for (int i = 0; i < TABLES; i++) {
		if (strcmp(name, tables[i].name))
			continue;
		*attribute = tables[i].attribute;
		return true;
	}
	if (!number_read(name, UINT16_MAX, &number))
		return false;
	*attribute = (uint16_t)number;
	return true;
}

/* ---- a file of edits ---- */

static const char blanks[] = " \t\r\n";

static unsigned edit_named(const char *word)
{
	static const char *const names[] = { [SA_ADD] = "add", [SA_DELETE_ONE] = "delete", [SA_EDIT_ONE] = "edit" };
	unsigned i = SA_EDIT_ONE;

	while (i && strcmp(word, names[i]))
		i--;
	return i;
}

static bool parse_line(char *line, uint64_t key, uint8_t edit[SA_EDIT_BYTES])
{
	char *text, *word = strtok_r(line, blanks, &text), *number = strtok_r(NULL, blanks, &text);
	uint64_t id;
	size_t bytes;

	if (!number || !number_read(number, UINT64_MAX, &id))
		return false;
	text += strspn(text, blanks);
	bytes = strcspn(text, "\n");
	memset(edit, 0, SA_EDIT_BYTES);
	edit[0] = (uint8_t)edit_named(word);
	if (!edit[0] || (edit[0] == SA_DELETE_ONE) != !bytes || bytes > SA_KEPT_TEXT)
		return false;
	wire_put(edit, id, 8, 0, 64);
	wire_put(edit, key, 16, 0, 64);
	memcpy(edit + 24, text, bytes);
	return true;
}

/* 0 or -errno. */
static int add_line(char *line, uint64_t key, uint8_t **edits, uint32_t *bytes)
{
	uint8_t *more = realloc(*edits, *bytes + SA_EDIT_BYTES);

	if (!more)
		return -ENOMEM;
	*edits = more;
	if (!parse_line(line, key, more + *bytes))
		return -EINVAL;
	*bytes += SA_EDIT_BYTES;
	return 0;
}

static int read_lines(FILE *f, uint64_t key, uint8_t **edits, uint32_t *bytes, uint32_t *line)
{
	size_t room = 0;
	char *text = NULL;
	int err = 0;

	*line = 0;
	while (!err && getline(&text, &room, f) >= 0) {
		++*line;
		if (text[strspn(text, blanks)] != '\0' && text[0] != '#')
			err = add_line(text, key, edits, bytes);
	}
	if (!err && !feof(f))
		err = -errno;
	free(text);
	return err ? err : *bytes ? 0 : -ENODATA;
}

int sa_records_read(const char *path, uint64_t key, uint8_t **edits, uint32_t *bytes, uint32_t *line)
{
	FILE *f = fopen(path, "r");
	int err;

	if (!f)
		return -errno;
	err = read_lines(f, key, edits, bytes, line);
	fclose(f);
	return err;
}

/* ---- answers ---- */

static json_t *describe_node(const uint8_t *record)
{
	static const char *const types[] = { "?", "host", "switch", "router" };
	char guid[20], name[65], plain[130];
	unsigned type = (unsigned)wire_get(record, 6, 0, 8);

	snprintf(guid, sizeof(guid), "%016llx", (unsigned long long)wire_get(record, 16, 0, 64));
	snprintf(name, sizeof(name), "%.64s", (const char *)record + 44);
	return json_pack("{s:s, s:i, s:s, s:s, s:s}", "table", "nodes", "lid", (int)wire_get(record, 0, 0, 16), "type",
			 types[type < 4 ? type : 0], "guid", guid, "name", output_plain(name, plain, sizeof(plain)));
}

static json_t *describe_path(const uint8_t *record)
{
	unsigned mtu = (unsigned)wire_get(record, 54, 2, 6);

	return json_pack("{s:s, s:i, s:i, s:i}", "table", "paths", "slid", (int)wire_get(record, 42, 0, 16), "dlid",
			 (int)wire_get(record, 40, 0, 16), "mtu", mtu && mtu < 6 ? 128 << mtu : 0);
}

/* Jansson's integers have a sign: what does not fit is text. */
static json_t *describe_number(uint64_t number)
{
	return number <= INT64_MAX ? json_integer((json_int_t)number) : json_sprintf("%" PRIu64, number);
}

static json_t *describe_kept(const uint8_t *record)
{
	char text[SA_KEPT_TEXT + 1], plain[2 * SA_KEPT_TEXT + 2];

	snprintf(text, sizeof(text), "%.48s", (const char *)record + 16);
	return json_pack("{s:s, s:o, s:o, s:s}", "table", "kept", "id", describe_number(wire_get(record, 0, 0, 64)), "key",
			 describe_number(wire_get(record, 8, 0, 64)), "text", output_plain(text, plain, sizeof(plain)));
}

static json_t *describe(unsigned attribute, const uint8_t *record, uint32_t bytes)
{
	char *hex;
	json_t *o;

	if (attribute == SA_NODE_RECORD_ID && bytes >= 108)
		return describe_node(record);
	if (attribute == SA_PATH_RECORD_ID && bytes >= 64)
		return describe_path(record);
	if (attribute == SA_KEPT_ATTRIBUTE && bytes == SA_KEPT_BYTES)
		return describe_kept(record);
	hex = calloc(bytes + 1, 2);
	for (uint32_t i = 0; hex && i < bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", record[i]);
	o = json_pack("{s:i, s:s}", "attribute", (int)attribute, "record", hex ? hex : "");
	free(hex);
	return o;
}

static uint32_t bytes_of(const struct sa_client_question *q, const struct sa_client_answer *a)
{
	if (a->record_bytes)
		return a->record_bytes;
	for (int i = 0; i < TABLES; i++)
		if (tables[i].attribute == q->attribute)
			return tables[i].bytes;
	return a->bytes;
}

static json_t *records_of(const struct sa_client_question *q, const struct sa_client_answer *a)
{
	bool is_bulk = q->class_version == SERIES_CLASS_VERSION && q->method == TXN_GET_BULK;
	uint32_t each = is_bulk ? 0 : bytes_of(q, a), attribute = q->attribute;
	json_t *all = json_array();

	for (uint32_t at = 0; at < a->bytes; at += each) {
		if (is_bulk && a->bytes - at < SA_BULK_HEAD)
			break;
		if (is_bulk) {
			attribute = (uint32_t)wire_get(a->data + at, 0, 0, 16);
			each = (uint32_t)wire_get(a->data + at, 2, 0, 16);
			at += SA_BULK_HEAD;
		}
		if (!each || each > a->bytes - at)
			break;
		json_array_append_new(all, describe(attribute, a->data + at, each));
	}
	return all;
}

static const char *const statuses[] = {
	[SA_DONE] = "done", [SA_NOT_DONE] = "not done, as another one could not be", [SA_IS_THERE] = "there is one of this id",
	[SA_IS_NOT_THERE] = "there is none of this id", [SA_NOT_YOURS] = "it has another key",
	[SA_NO_SUCH_EDIT] = "it is no edit", [SA_NO_PLACE] = "there is no place for more",
};

static json_t *edits_of(const struct sa_client_answer *a, bool *all_done)
{
	json_t *all = json_array();

	*all_done = true;
	for (uint32_t i = 0; i + 1 < a->bytes; i += 2) {
		unsigned status = (unsigned)wire_get(a->data + i, 0, 0, 16);
		const char *text = status < sizeof(statuses) / sizeof(statuses[0]) ? statuses[status] : "?";

		*all_done &= status == SA_DONE;
		json_array_append_new(all, json_pack("{s:i, s:i, s:s}", "edit", (int)(i / 2 + 1), "status", (int)status, "text",
						     text));
	}
	return all;
}

/* Each table by its own columns, in the order of the answer. */
static void print_records(const json_t *records)
{
	static const struct output_column node[] = { { "lid", "LID" }, { "type", "TYPE" }, { "guid", "GUID" },
						     { "name", "NAME" }, { 0 } };
	static const struct output_column path[] = { { "slid", "SLID" }, { "dlid", "DLID" }, { "mtu", "MTU" }, { 0 } };
	static const struct output_column kept[] = { { "id", "ID" }, { "key", "KEY" }, { "text", "TEXT" }, { 0 } };
	static const struct output_column other[] = { { "attribute", "ATTRIBUTE" }, { "record", "RECORD" }, { 0 } };
	static const struct { const char *name; const struct output_column *columns; } shown[] = {
		{ "nodes", node }, { "paths", path }, { "kept", kept }, { "", other },
	};

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		json_t *rows = json_array(), *row;
		size_t k;

		json_array_foreach((json_t *)(uintptr_t)records, k, row) {
			if (!strcmp(output_text(row, "table"), shown[i].name))
				json_array_append(rows, row);
		}
		output_table(rows, shown[i].columns);
		json_decref(rows);
	}
	if (!json_array_size(records))
		puts("no records");
}

static int refuse(uint16_t status)
{
	static const char *const texts[] = { "", "it has no memory for it", "it does not give that out, or it is no edit",
					     "no records", "there are too many records" };
	unsigned of_class = status >> 8;

	if (status == MAD_STATUS_BUSY)
		return cli_fail("ask again", "the administration answers with status 0x%04x: it cannot go on now", status);
	return cli_fail(NULL, "the administration answers with status 0x%04x%s%s", status, of_class ? ": " : "",
			of_class < sizeof(texts) / sizeof(texts[0]) ? texts[of_class] : "");
}

int sa_records_show(const struct sa_client_question *q, const struct sa_client_answer *a, bool as_json)
{
	bool is_config = q->class_version == SERIES_CLASS_VERSION && q->method == TXN_CONFIG, all_done = true;
	static const struct output_column columns[] = { { "edit", "EDIT" }, { "text", "STATUS" }, { 0 } };
	json_t *rows;

	if (a->status && a->status != SA_NO_RECORDS)
		return refuse(a->status);
	rows = is_config ? edits_of(a, &all_done) : records_of(q, a);
	if (as_json) {
		output_json(json_pack("{s:o, s:i, s:I, s:I}", is_config ? "edits" : "records", rows, "bytes", (int)a->bytes,
				      "sent", (json_int_t)a->sent, "received", (json_int_t)a->received));
		return all_done ? EXIT_OK : EXIT_FAILED;
	}
	if (is_config)
		output_table(rows, columns);
	else
		print_records(rows);
	json_decref(rows);
	return all_done ? EXIT_OK : EXIT_FAILED;
}
