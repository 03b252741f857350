#include "ends.h"

#include "stopwatch.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ends fork_ends(char *const cpu[2])
{
	struct ends e = { 0 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair");
	e.child = fork();
	if (e.child < 0)
		die("fork");
	e.me = e.child == 0;
	if (e.me == 1)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	e.link_fd = pair[e.me];
	close(pair[!e.me]);
	pin(atoi(cpu[e.me]));
	return e;
}

static int accept_at(int fd, const struct sockaddr_in *at)
{
	int on = 1, link;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) || listen(fd, 1))
		die("listen");
	link = accept(fd, NULL, NULL);
	close(fd);
	return link;
}

struct ends ends_open(char *const place[2])
{
	struct ends e = { .me = strcmp(place[0], "listen") == 0, .is_wire = true };
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(place[1])) };
	int on = 1;

	if (!e.me && inet_pton(AF_INET, place[0], &at.sin_addr) != 1)
		return fork_ends(place);
	e.link_fd = socket(AF_INET, SOCK_STREAM, 0);
	if (e.link_fd < 0)
		die("socket");
	if (e.me)
		e.link_fd = accept_at(e.link_fd, &at);
	else if (connect(e.link_fd, (struct sockaddr *)&at, sizeof(at)))
		die("connect");
	if (e.link_fd < 0 || setsockopt(e.link_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die("a connection between the ends");
	return e;
}

void ends_meet(const struct ends *e)
{
	char byte = 0;

	if (write(e->link_fd, &byte, 1) != 1 || read(e->link_fd, &byte, 1) != 1)
		die("the other end");
}

int ends_close(const struct ends *e)
{
	int status = 0;

	close(e->link_fd);
	if (e->child && waitpid(e->child, &status, 0) != e->child)
		die("waitpid");
	return status != 0;
}
