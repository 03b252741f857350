/* Questions to subnet administration by a file of their own: include/weft/weft.h. */
#include "abi/umad/umad_file.h"
#include "abi/umad/umad_sysfs.h"

#include "control/connect.h"
#include "control/sa_client.h"
#include "weft/weft.h"
#include "wire/sa.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

/* All of what this version does not know is to be 0. */
static bool is_known(const struct weft_sa_options *o)
{
	uint8_t rest = 0;

	for (size_t i = 0; i < sizeof(o->reserved); i++)
		rest |= o->reserved[i];
	return o->lsb_first <= 1 && !rest;
}

static int add_agent(const uint8_t secret[16], const struct sa_client_question *q, uint32_t *id)
{
	struct control_agent agent = sa_client_agent(q->class_version);
	int fd = connect_as(umad_dir(), CONTROL_COMMAND), err;

	if (fd < 0)
		return fd;
	err = sa_client_register(fd, secret, &agent, sa_client_buffers(q), id);
	close(fd);
	return err;
}

UMAD_EXPORT int weft_sa_ask_with(const char *ca_name, int portnum, const struct weft_sa_question *q,
				 const struct weft_sa_options *o, struct weft_sa_answer *a)
{
	struct sa_client_question ask = { .class_version = q->class_version, .method = q->method, .attribute = q->attribute,
					  .window = q->window, .lid = q->lid, .key = q->key, .records = q->records,
					  .bytes = q->bytes, .timeout_ms = q->timeout_ms,
					  .retries = o ? o->retries : SA_CLIENT_RETRIES, .is_lsb_first = o && o->lsb_first };
	struct sa_client_answer answer;
	char name[UMAD_NAME];
	struct umad_file file;
	uint32_t agent = 0;
	int fd, err, number = umad_resolve(ca_name, portnum, UMAD_GSI, name);

	if (number < 0)
		return number;
	if (o && !is_known(o))
		return -EINVAL;
	fd = umad_file_open(name, number, UMAD_GIVES_BACK, &file);
	if (fd < 0)
		return fd;
	ask.times = file.times;
	if (!ask.lid)
		ask.lid = q->class_version == SA_CLASS_VERSION ? file.manager : file.seed;
	err = ask.lid ? add_agent(file.secret, &ask, &agent) : -ENOENT;
	if (!err)
		err = sa_client_ask(fd, agent, &ask, &answer);
	close(fd);
	if (err)
		return err;
	*a = (struct weft_sa_answer){ answer.status, answer.record_bytes, answer.data, answer.bytes };
	return 0;
}

UMAD_EXPORT int weft_sa_ask(const char *ca_name, int portnum, const struct weft_sa_question *q, struct weft_sa_answer *a)
{
	return weft_sa_ask_with(ca_name, portnum, q, NULL, a);
}
