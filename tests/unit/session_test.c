/* The client's conversation with weftd, against a weftd of a few lines: answers find their askers whatever comes between,
 * descriptors arrive or are closed, and a weftd that dies or talks nonsense ends the session, not the program. */
#include "host/message.h"
#include "host/session.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

struct fake {
	char dir[64];
	int listener, wake_fd;
	pthread_t thread;
	struct session session;
	int before;	/* descriptors open */
};

static int open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Answers by type: SLOT with slot 7; CHANNEL after unasked mail, with two descriptors; MCAST with EDQUOT; LISTEN by
 * leaving; PORT with half a message; GOODBYE not at all; STATUS ends the fake. */
static void *serve(void *arg)
{
	struct fake *f = arg;
	int s = accept(f->listener, NULL, NULL), fds[CONTROL_FDS], nfds;
	struct control_msg msg, unasked;

	while (message_receive(s, &msg, NULL, 0, fds, &nfds, 0) == 0) {
		struct control_msg answer = msg;
		int null[2] = { open("/dev/null", O_RDWR), open("/dev/null", O_RDWR) };

		while (nfds > 0)
			close(fds[--nfds]);
		if (msg.type == CTL_SLOT) {
			answer.slot = 7;
			message_send(s, &answer, NULL, null, 1, 0);
		} else if (msg.type == CTL_CHANNEL) {
			unasked = (struct control_msg){ .type = CTL_REPORT, .seq = msg.seq, .text_bytes = 2 };
			message_send(s, &unasked, "qp", NULL, 0, 0);
			unasked = (struct control_msg){ .type = CTL_CHANNEL, .slot = 9 };
			message_send(s, &unasked, NULL, null, 2, 0);
			unasked.type = CTL_PEER_GONE;
			message_send(s, &unasked, NULL, NULL, 0, 0);
			message_send(s, &answer, NULL, null, 2, 0);
		} else if (msg.type == CTL_MCAST) {
			answer.status = EDQUOT;
			message_send(s, &answer, NULL, null, 1, 0);
		} else if (msg.type == CTL_PORT) {
			send(s, &answer, sizeof(answer) / 2, 0);
		}
		close(null[0]);
		close(null[1]);
		if (msg.type == CTL_LISTEN || msg.type == CTL_STATUS)
			break;
	}
	close(s);
	return NULL;
}

static int start(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	f->before = open_descriptors();
	strcpy(f->dir, "/tmp/weft-session-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/ctl", f->dir);
	f->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(f->listener, 1), 0);
	f->wake_fd = eventfd(0, EFD_NONBLOCK);
	pthread_create(&f->thread, NULL, serve, f);
	assert_int_equal(session_open(&f->session, f->dir, f->wake_fd), 0);
	*state = f;
	return 0;
}

static int stop(void **state)
{
	struct control_msg msg = { .type = CTL_STATUS };
	struct fake *f = *state;
	char path[80];

	session_post(&f->session, &msg, NULL);
	pthread_join(f->thread, NULL);
	session_close(&f->session);
	close(f->listener);
	close(f->wake_fd);
	snprintf(path, sizeof(path), "%s/ctl", f->dir);
	unlink(path);
	rmdir(f->dir);
	assert_int_equal(open_descriptors(), f->before);
	free(f);
	return 0;
}

static void answers_find_their_askers(void **state)
{
	struct fake *f = *state;
	struct control_msg msg = { .type = CTL_SLOT };
	int fds[CONTROL_FDS], nfds = 0;

	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), 0);
	assert_int_equal(msg.slot, 7);
	msg = (struct control_msg){ .type = CTL_SLOT };
	assert_int_equal(session_call(&f->session, &msg, &f->wake_fd, 1, fds, &nfds), 0);
	assert_int_equal(nfds, 1);
	assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	close(fds[0]);
	msg = (struct control_msg){ .type = CTL_MCAST };
	assert_int_equal(session_call(&f->session, &msg, NULL, 0, fds, &nfds), -EDQUOT);
}

static void mail_waits_in_order(void **state)
{
	struct fake *f = *state;
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = 3 };
	struct mail *mail;
	eventfd_t count;

	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), 0);
	assert_int_equal(msg.slot, 3);
	assert_int_equal(eventfd_read(f->wake_fd, &count), 0);
	assert_true(atomic_load(&f->session.has_mail));
	mail = session_take_channel(&f->session);
	assert_int_equal(mail->msg.type, CTL_CHANNEL);
	assert_int_equal(mail->fds, 2);
	mail_free(mail);
	mail = session_take_channel(&f->session);
	assert_int_equal(mail->msg.type, CTL_PEER_GONE);
	session_pass_on(&f->session, mail);
	assert_null(session_take_channel(&f->session));
	mail = session_take(&f->session);
	assert_int_equal(mail->msg.type, CTL_REPORT);
	assert_string_equal(mail->text, "qp");
	mail_free(mail);
	/* one is left for session_close */
}

static void weftd_dies(void **state)
{
	struct fake *f = *state;
	struct control_msg msg = { .type = CTL_LISTEN };

	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), -ENOTCONN);
	assert_true(atomic_load(&f->session.dead));
	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), -ENOTCONN);
	assert_int_equal(session_post(&f->session, &msg, NULL), -ENOTCONN);
}

static void nonsense_ends_the_session(void **state)
{
	struct fake *f = *state;
	struct control_msg msg = { .type = CTL_PORT };

	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), -EPROTO);
	assert_true(atomic_load(&f->session.dead));
	/* lets the fake go: stop() may no longer ask it to */
	shutdown(f->session.socket, SHUT_RDWR);
}

static void *ask_often(void *arg)
{
	struct session *s = arg;

	for (int i = 0; i < 300; i++) {
		struct control_msg msg = { .type = CTL_SLOT };

		if (session_call(s, &msg, NULL, 0, NULL, NULL) != 0 || msg.slot != 7)
			return s;
	}
	return NULL;
}

static void many_threads_ask(void **state)
{
	struct fake *f = *state;
	pthread_t thread[16];
	void *failed;

	for (int i = 0; i < 16; i++)
		pthread_create(&thread[i], NULL, ask_often, &f->session);
	for (int i = 0; i < 16; i++) {
		pthread_join(thread[i], &failed);
		assert_null(failed);
	}
}

static void nobody_is_there(void **state)
{
	char far[200];
	struct session s;

	(void)state;
	memset(far, 'x', sizeof(far));
	far[199] = '\0';
	assert_int_equal(session_open(&s, "", -1), -ENODEV);
	assert_int_equal(session_open(&s, far, -1), -ENODEV);
	assert_int_equal(session_open(&s, "/nonexistent", -1), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answers_find_their_askers, start, stop),
		cmocka_unit_test_setup_teardown(mail_waits_in_order, start, stop),
		cmocka_unit_test_setup_teardown(weftd_dies, start, stop),
		cmocka_unit_test_setup_teardown(nonsense_ends_the_session, start, stop),
		cmocka_unit_test_setup_teardown(many_threads_ask, start, stop),
		cmocka_unit_test(nobody_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
