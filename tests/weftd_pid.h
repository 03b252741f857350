/* The weftd that serves WEFT_DIR: who listens at its socket. */
#ifndef WEFT_TESTS_WEFTD_PID_H
#define WEFT_TESTS_WEFTD_PID_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* 0: there is none. */
static inline pid_t weftd_pid(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct ucred who = { 0 };
	socklen_t bytes = sizeof(who);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/ctl", getenv("WEFT_DIR"));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes))
		who.pid = 0;
	close(fd);
	return who.pid;
}

#endif
