/* Questions to subnet administration by a file of their own: include/weft/weft.h. */
#include "abi/umad/umad_file.h"
#include "abi/umad/umad_sysfs.h"

#include "control/connect.h"
#include "control/sa_client.h"
#include "weft/weft.h"
#include "wire/sa.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int add_agent(const uint8_t secret[16], uint8_t class_version, uint32_t *id)
{
	struct control_agent agent = sa_client_agent(class_version);
	struct control_msg msg = { .type = CTL_MAD_AGENT, .text_bytes = sizeof(agent) };
	int fd = connect_as(umad_dir(), CONTROL_COMMAND), err;

	if (fd < 0)
		return fd;
	memcpy(msg.gid, secret, sizeof(msg.gid));
	err = connect_ask(fd, &msg, &agent);
	close(fd);
	*id = msg.b;
	return err;
}

UMAD_EXPORT int weft_sa_ask(const char *ca_name, int portnum, const struct weft_sa_question *q, struct weft_sa_answer *a)
{
	struct sa_client_question ask = { .class_version = q->class_version, .method = q->method, .attribute = q->attribute,
					  .window = q->window, .lid = q->lid, .key = q->key, .records = q->records,
					  .bytes = q->bytes, .timeout_ms = q->timeout_ms };
	struct sa_client_answer answer;
	char name[UMAD_NAME];
	struct umad_file file;
	uint32_t agent = 0;
	int fd, err, number = umad_resolve(ca_name, portnum, UMAD_GSI, name);

	if (number < 0)
		return number;
	fd = umad_file_open(name, number, UMAD_READS, &file);
	if (fd < 0)
		return fd;
	if (!ask.lid)
		ask.lid = q->class_version == SA_CLASS_VERSION ? file.manager : file.seed;
	err = ask.lid ? add_agent(file.secret, ask.class_version, &agent) : -ENOENT;
	if (!err)
		err = sa_client_ask(fd, agent, &ask, &answer);
	close(fd);
	if (err)
		return err;
	*a = (struct weft_sa_answer){ answer.status, answer.record_bytes, answer.data, answer.bytes };
	return 0;
}
