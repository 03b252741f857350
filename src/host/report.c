/* What `weft qp`, `weft mr` and `weft counters` show of this process: JSON for weftd, which joins all processes'. An array
 * of objects for qp and mr, one object for counters. */
#include "host/internal.h"

#include "verbs/mr.h"
#include "verbs/qp.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(names, value) ((size_t)(value) < sizeof(names) / sizeof(*(names)) && (names)[value] ? (names)[value] : "unknown")

static const char *const state_names[] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR", [IBV_QPS_RTS] = "RTS",
	[IBV_QPS_SQD] = "SQD", [IBV_QPS_SQE] = "SQE", [IBV_QPS_ERR] = "ERR",
};

static const char *const type_names[] = {
	[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD", [IBV_QPT_RAW_PACKET] = "RAW",
	[IBV_QPT_XRC_SEND] = "XRC_SEND", [IBV_QPT_XRC_RECV] = "XRC_RECV",
};

static const char *const kind_names[] = {
	[MR_MEMORY] = "memory", [MR_ON_DEMAND] = "on-demand", [MR_IMPLICIT] = "implicit", [MR_NULL] = "null",
	[MR_DEVICE] = "device", [MR_WINDOW] = "window",
};

static json_t *report_qp(struct host *h, struct qp *qp)
{
	json_t *o = json_object();

	json_object_set_new(o, "device", json_string(qp->dev->name));
	json_object_set_new(o, "qpn", json_integer(qp->qpn));
	json_object_set_new(o, "type", json_string(NAME(type_names, qp->type)));
	json_object_set_new(o, "state", json_string(NAME(state_names, qp->state)));
	if (qp->type != IBV_QPT_UD && qp->state >= IBV_QPS_RTR && qp->state <= IBV_QPS_SQE)
		json_object_set_new(o, "dest_qpn", json_integer(qp->attr.dest_qp_num));
	json_object_set_new(o, "path", json_string(direct_path_name(h, qp)));
	json_object_set_new(o, "bytes_sent", json_integer((json_int_t)qp->bytes_sent));
	json_object_set_new(o, "bytes_received", json_integer((json_int_t)qp->bytes_received));
	json_object_set_new(o, "messages_sent", json_integer((json_int_t)qp->messages_sent));
	json_object_set_new(o, "messages_received", json_integer((json_int_t)qp->messages_received));
	return o;
}

static json_t *report_qps(struct host *h)
{
	json_t *all = json_array();

	list_for_each(qp, &h->ca.all_qps, struct qp, all)
		json_array_append_new(all, report_qp(h, qp));
	return all;
}

static const char *tier_name(const struct mr *mr)
{
	if (!mr->shown)
		return "packets";
	return mr->is_mapped ? "mapped" : "private";
}

static json_t *report_mr(const struct mr *mr)
{
	json_t *o = json_object();
	const char *remap = remap_reason(mr->placed);
	char key[16], address[24];

	snprintf(key, sizeof(key), "0x%08x", mr->key);
	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)mr->iova);
	json_object_set_new(o, "device", json_string(mr->pd->dev->name));
	json_object_set_new(o, "kind", json_string(NAME(kind_names, mr->kind)));
	json_object_set_new(o, "key", json_string(key));
	json_object_set_new(o, "iova", json_string(address));
	json_object_set_new(o, "length", json_integer((json_int_t)mr->length));
	json_object_set_new(o, "access", json_integer(mr->access));
	json_object_set_new(o, "tier", json_string(tier_name(mr)));
	if (remap)
		json_object_set_new(o, "remap", json_string(remap));
	return o;
}

static json_t *report_mrs(struct ca *ca)
{
	json_t *all = json_array();
	uint32_t cursor = 0;
	const struct mr *mr;

	while ((mr = table_next(&ca->keys, &cursor)))
		json_array_append_new(all, report_mr(mr));
	return all;
}

static json_t *report_counters(struct ca *ca)
{
	json_t *o = json_object();

	ca->counters.queue_bytes = ca->arena.pinned;
	for (unsigned i = 0; i < COUNTERS; i++)
		json_object_set_new(o, counters_name(i), json_integer((json_int_t)counters_value(&ca->counters, i)));
	return o;
}

static json_t *report(struct host *h, const char *what)
{
	struct ca *ca = &h->ca;

	if (strcmp(what, "qp") == 0)
		return report_qps(h);
	if (strcmp(what, "mr") == 0)
		return report_mrs(ca);
	if (strcmp(what, "counters") == 0)
		return report_counters(ca);
	return NULL;
}

/* The text, as many elements of it as fit a message. Freed by the caller. */
static char *fitting_text(json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	while (text && strlen(text) > CONTROL_TEXT && json_is_array(json)) {
		free(text);
		for (size_t drop = json_array_size(json) / 4 + 1; drop; drop--)
			json_array_remove(json, json_array_size(json) - 1);
		text = json_dumps(json, JSON_COMPACT);
	}
	return text;
}

void report_answer(struct host *h, const struct control_msg *request, const char *what)
{
	struct control_msg msg = { .type = CTL_REPORT, .seq = request->seq };
	json_t *json;
	char *text;

	host_enter(h);
	json = report(h, what);
	host_leave(h);
	text = fitting_text(json);
	json_decref(json);
	if (text)
		msg.text_bytes = (uint32_t)strlen(text);
	else
		msg.status = EINVAL;
	session_post(&h->session, &msg, text);
	free(text);
}
