/* What is in a file, and whether it can be mapped without danger, is for those who map it to judge. */
#include "weftd/files.h"

#include "weftd/slots.h"
#include "weftd/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void files_add(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	struct control_msg answer = *msg;
	int fd = -1;

	if (nfds != 1 || (msg->b && msg->b != c->files + 1) || c->files == CONTROL_FILES) {
		hub_answer(h, c, msg, c->files == CONTROL_FILES ? EDQUOT : EINVAL);
		return;
	}
	fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	if (fd < 0) {
		hub_answer(h, c, msg, errno);
		return;
	}
	c->file_fd[c->files++] = fd;
	answer.b = c->files;
	hub_answer(h, c, &answer, 0);
}

void files_give(struct hub *h, struct client *c, const struct control_msg *msg)
{
	const struct client *owner = slots_owner(h, msg->slot);
	struct control_msg answer = *msg;

	if (!owner || msg->b == 0 || msg->b > owner->files) {
		hub_answer(h, c, msg, ENOENT);
	} else if (owner != c && !trust_allows(h, owner, c)) {
		hub_answer(h, c, msg, EPERM);
	} else {
		answer.status = 0;
		answer.text_bytes = 0;
		h->ops->send(h, c, &answer, NULL, &owner->file_fd[msg->b - 1], 1);
	}
}

void files_leave(struct client *c)
{
	while (c->files)
		close(c->file_fd[--c->files]);
}
