/* A TCP socket whose close(2) waits: it lingers over bytes that nobody takes. */
#ifndef WEFT_TESTS_LINGERING_H
#define WEFT_TESTS_LINGERING_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINGER_S = 600 };

/* The socket, whose other end, which does not read, is in *sink. */
static inline int make_lingering(int *sink)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { .l_onoff = 1, .l_linger = LINGER_S };
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static char block[65536];

	assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, bytes), 0);
	*sink = accept(listener, NULL, NULL);
	assert_true(*sink >= 0);
	close(listener);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	while (send(fd, block, sizeof(block), MSG_DONTWAIT) > 0)
		;
	return fd;
}

#endif
