/* The client's conversation with weftd, against a weftd of a few lines: answers find their askers whatever comes between,
 * descriptors arrive or are closed, and a weftd that dies or talks nonsense ends the session, not the program. */
#include "control/message.h"
#include "control/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

struct fake {
	char dir[64];
	int listener, wake_fd;
	_Atomic unsigned lives, told[CTL_KEPT + 1];
	_Atomic uint32_t last_unport;
	pthread_mutex_t reads;	/* held: it is stopped */
	unsigned returns;
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

static const uint8_t secret[16] = "that nobody else";

/* As weftd answers it: the first life gives slot 7 and a secret, later ones want to see them. */
static void answer_hello(struct fake *f, struct control_msg *answer)
{
	if (answer->a == CONTROL_PROCESS) {
		answer->slot = 7;
		memcpy(answer->gid, secret, sizeof(secret));
	} else if (answer->slot == 7 && memcmp(answer->gid, secret, sizeof(secret)) == 0) {
		f->returns++;
	} else {
		answer->status = ESTALE;
	}
}

/* Answers by type: SLOT with slot 7; CHANNEL after unasked mail, with two descriptors; MCAST with EDQUOT,
 * after an answer that nobody waits for; LISTEN by leaving in the first life, then properly; PORT with half a message; GOODBYE
 * not at all; UP and STATUS end the fake. */
static void serve_one(struct fake *f, int s, const struct control_msg *msg)
{
	struct control_msg answer = *msg, unasked;
	int null[2] = { open("/dev/null", O_RDWR), open("/dev/null", O_RDWR) };

	if (msg->type == CTL_HELLO) {
		answer_hello(f, &answer);
		message_send(s, &answer, NULL, null, 1, 0);
	} else if (msg->type == CTL_SLOT) {
		answer.slot = 7;
		message_send(s, &answer, NULL, null, 1, 0);
	} else if (msg->type == CTL_CHANNEL) {
		unasked = (struct control_msg){ .type = CTL_REPORT, .seq = msg->seq, .text_bytes = 2 };
		message_send(s, &unasked, "qp", NULL, 0, 0);
		unasked = (struct control_msg){ .type = CTL_CHANNEL, .slot = 9, .b = 1 };
		message_send(s, &unasked, NULL, null, 2, 0);
		unasked.type = CTL_PEER_GONE;
		message_send(s, &unasked, NULL, NULL, 0, 0);
		answer.b = 2;
		message_send(s, &answer, NULL, null, 2, 0);
	} else if (msg->type == CTL_MCAST) {
		unasked = (struct control_msg){ .type = CTL_MCAST, .seq = msg->seq + 1000 };
		if (msg->a)
			message_send(s, &unasked, NULL, NULL, 0, 0);
		answer.status = msg->a ? EDQUOT : 0;
		message_send(s, &answer, NULL, null, 1, 0);
	} else if (msg->type == CTL_PORT) {
		send(s, &answer, sizeof(answer) / 2, 0);
	} else if (msg->type == CTL_LISTEN && f->lives > 1 && msg->seq) {
		message_send(s, &answer, NULL, NULL, 0, 0);
	}
	close(null[0]);
	close(null[1]);
}

static void *serve(void *arg)
{
	struct fake *f = arg;
	bool is_over = false;

	while (!is_over) {
		int s = accept(f->listener, NULL, NULL), fds[CONTROL_FDS], nfds;
		char text[BACKLOG_TEXT];
		struct control_msg msg;
		bool leaves;

		f->lives++;
		while (message_receive(s, &msg, text, sizeof(text), fds, &nfds, 0) == 0) {
			while (nfds > 0)
				close(fds[--nfds]);
			pthread_mutex_lock(&f->reads);
			pthread_mutex_unlock(&f->reads);
			f->told[msg.type]++;
			if (msg.type == CTL_UNPORT && msg.a == f->last_unport + 1)	/* in order */
				f->last_unport = msg.a;
			leaves = msg.type == CTL_LISTEN && f->lives == 1;	/* once answered, the test may change lives */
			serve_one(f, s, &msg);
			is_over = msg.type == CTL_UP || msg.type == CTL_STATUS;
			if (is_over || leaves)
				break;
		}
		close(s);
	}
	return NULL;
}

static int start(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int page_fd;

	f->before = open_descriptors();
	pthread_mutex_init(&f->reads, NULL);
	strcpy(f->dir, "/tmp/weft-session-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/ctl", f->dir);
	f->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(f->listener, 1), 0);
	f->wake_fd = eventfd(0, EFD_NONBLOCK);
	pthread_create(&f->thread, NULL, serve, f);
	assert_int_equal(session_open(&f->session, f->dir, &f->wake_fd, 1, &page_fd), 0);
	assert_int_equal(f->session.slot, 7);
	close(page_fd);
	*state = f;
	return 0;
}

static int stop(void **state)
{
	struct control_msg msg = { .type = CTL_STATUS };
	struct fake *f = *state;
	char path[80];

	/* whatever the session has become of */
	message_send(f->session.socket, &msg, NULL, NULL, 0, 0);
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
	msg = (struct control_msg){ .type = CTL_MCAST, .a = 1 };
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

/* Who posts does not wait for a weftd that is stopped, and it hears all of it afterwards, in order; and before it is asked. */
static void posts_wait_for_a_stopped_weftd(void **state)
{
	enum { POSTS = 3000 };
	struct control_msg slot = { .type = CTL_SLOT };
	struct fake *f = *state;

	pthread_mutex_lock(&f->reads);
	for (uint32_t i = 1; i <= POSTS; i++)
		assert_int_equal(session_post(&f->session, &(struct control_msg){ .type = CTL_UNPORT, .a = i }, NULL), 0);
	assert_true(f->session.backlog.count > POSTS / 2);
	assert_false(session_flush(&f->session));
	pthread_mutex_unlock(&f->reads);
	assert_int_equal(session_call(&f->session, &slot, NULL, 0, NULL, NULL), 0);
	assert_int_equal(f->told[CTL_UNPORT], POSTS);
	assert_int_equal(f->last_unport, POSTS);
	assert_true(session_flush(&f->session));
	/* what waits when it ends is forgotten */
	pthread_mutex_lock(&f->reads);
	for (uint32_t i = 1; i <= BACKLOG_MOST / 2; i++)
		session_post(&f->session, &(struct control_msg){ .type = CTL_UNPORT, .a = i }, NULL);
	pthread_mutex_unlock(&f->reads);
}

/* So do frames of the connection manager, as many as the next second may need, and in their turn; the helper thread hears of it
 * once. */
static void frames_wait_for_a_slow_weftd(void **state)
{
	enum { FRAMES = 2000, BYTES = 300 };
	struct control_msg msg = { .type = CTL_FRAME, .text_bytes = BYTES }, slot = { .type = CTL_SLOT };
	char frame[BYTES] = "";
	struct fake *f = *state;
	unsigned lost = 0;
	eventfd_t count;

	pthread_mutex_lock(&f->reads);
	for (uint32_t i = 1; i <= FRAMES; i++)
		assert_int_equal(session_post(&f->session, &msg, frame), 0);
	assert_true(f->session.backlog.count > FRAMES / 2);
	assert_int_equal(eventfd_read(f->wake_fd, &count), 0);
	assert_int_equal(count, 1);
	for (uint32_t i = 0; i < 2 * BACKLOG_DROPPABLE; i++)
		lost += session_post(&f->session, &msg, frame) != 0;
	assert_true(lost > BACKLOG_DROPPABLE);
	/* what must not be lost still has room */
	assert_int_equal(session_post(&f->session, &(struct control_msg){ .type = CTL_UNPORT, .a = 1 }, NULL), 0);
	pthread_mutex_unlock(&f->reads);
	assert_int_equal(session_call(&f->session, &slot, NULL, 0, NULL, NULL), 0);
	assert_int_equal(f->told[CTL_FRAME], FRAMES + 2 * BACKLOG_DROPPABLE - lost);
	assert_int_equal(f->last_unport, 1);
}

static void *ask_for_a_slot(void *arg)
{
	struct control_msg msg = { .type = CTL_SLOT };

	return session_call(arg, &msg, NULL, 0, NULL, NULL) ? arg : NULL;
}

/* Two do not wait for one socket: it would be readable for who may not read it. Who leaves it is told when it is free. */
static void who_waits_for_an_answer_reads_alone(void **state)
{
	enum { PATIENCE = 1000000 };
	struct fake *f = *state;
	pthread_t thread;
	eventfd_t count;
	void *failed;

	assert_true(session_needs_reader(&f->session));
	pthread_mutex_lock(&f->reads);
	pthread_create(&thread, NULL, ask_for_a_slot, &f->session);
	for (int i = 0; i < PATIENCE && session_needs_reader(&f->session); i++)
		sched_yield();
	assert_false(session_needs_reader(&f->session));
	assert_int_equal(eventfd_read(f->wake_fd, &count), -1);
	pthread_mutex_unlock(&f->reads);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(eventfd_read(f->wake_fd, &count), 0);
	assert_true(session_needs_reader(&f->session));
}

static void weftd_dies(void **state)
{
	struct fake *f = *state;
	struct control_msg msg = { .type = CTL_LISTEN };

	assert_int_equal(session_try(&f->session, &msg, NULL, 0, NULL, NULL), -ENOTCONN);
	assert_int_equal(atomic_load(&f->session.state), SESSION_AWAY);
	assert_int_equal(session_try(&f->session, &msg, NULL, 0, NULL, NULL), -ENOTCONN);
	assert_int_equal(session_post(&f->session, &msg, NULL), -ENOTCONN);
	while (session_return(&f->session) != WTIME_NEVER)
		;
	assert_int_equal(atomic_load(&f->session.state), SESSION_ATTACHED);
	assert_int_equal(f->returns, 1);
}

static void a_request_outlives_weftd(void **state)
{
	struct fake *f = *state;
	struct control_msg msg = { .type = CTL_LISTEN, .service = 5 };

	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), 0);
	assert_int_equal(msg.service, 5);
	assert_int_equal(f->returns, 1);
	assert_int_equal(f->told[CTL_LISTEN], 2);
}

/* The fake counts what it is told; its answer to a request says that it has read all before. */
static void weftd_is_told_again(void **state)
{
	struct fake *f = *state;
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = 3 };

	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), 0);
	msg = (struct control_msg){ .type = CTL_LISTEN, .service = 5 };
	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), 0);
	msg = (struct control_msg){ .type = CTL_LISTEN, .service = 6 };
	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), 0);
	msg = (struct control_msg){ .type = CTL_UNLISTEN, .service = 5 };
	assert_int_equal(session_post(&f->session, &msg, NULL), 0);
	/* the next life: one listener of the two, and the channel whose peer is not gone */
	f->told[CTL_KEPT] = f->told[CTL_LISTEN] = 0;
	f->lives = 1;
	msg = (struct control_msg){ .type = CTL_LISTEN, .service = 7 };
	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), 0);
	assert_int_equal(f->told[CTL_KEPT], 2);	/* one, and that it was all */
	assert_int_equal(f->told[CTL_LISTEN], 3);	/* 7 twice, and 6 */
}

static void nonsense_ends_the_session(void **state)
{
	struct fake *f = *state;
	struct control_msg msg = { .type = CTL_PORT };

	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), -EPROTO);
	assert_int_equal(atomic_load(&f->session.state), SESSION_OVER);
	assert_int_equal(session_call(&f->session, &msg, NULL, 0, NULL, NULL), -ENOTCONN);
	assert_int_equal(session_post(&f->session, &msg, NULL), -ENOTCONN);
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

/* A process with many peers runs out of descriptors: that message loses its own, and the session goes on. */
static void no_room_for_descriptors(void **state)
{
	struct control_msg msg = { .type = CTL_CHANNEL, .b = 5 }, got;
	int pair[2], next, fds[CONTROL_FDS], nfds = -1, before;
	struct rlimit old, few;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	before = open_descriptors();
	next = dup(pair[0]);
	close(next);
	assert_int_equal(message_send(pair[0], &msg, NULL, (int[]){ pair[0], pair[0], pair[0] }, 3, 0), 0);
	getrlimit(RLIMIT_NOFILE, &old);
	few = old;
	few.rlim_cur = (rlim_t)next + 1;
	setrlimit(RLIMIT_NOFILE, &few);
	assert_int_equal(message_receive(pair[1], &got, NULL, 0, fds, &nfds, 0), -EMFILE);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(nfds, 0);
	assert_int_equal(got.b, 5);
	assert_int_equal(open_descriptors(), before);
	close(pair[0]);
	close(pair[1]);
}

static void nobody_is_there(void **state)
{
	char far[200];
	struct session s;
	int fd = -1;

	(void)state;
	memset(far, 'x', sizeof(far));
	far[199] = '\0';
	assert_int_equal(session_open(&s, "", &fd, 1, &fd), -ENODEV);
	assert_int_equal(session_open(&s, far, &fd, 1, &fd), -ENODEV);
	assert_int_equal(session_open(&s, "/nonexistent", &fd, 1, &fd), -ENODEV);
}

/* A weftd that refuses us says why and leaves, with what we have sent meanwhile unread. */
static void a_refusal_is_heard_though_nobody_read_us(void **state)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 1 }, answer = { .type = CTL_HELLO, .seq = 1, .status = EDQUOT };
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(message_send(pair[0], &msg, NULL, NULL, 0, 0), 0);
	assert_int_equal(message_send(pair[1], &answer, NULL, NULL, 0, 0), 0);
	close(pair[1]);
	assert_int_equal(message_receive(pair[0], &msg, NULL, 0, NULL, NULL, 0), 0);
	assert_int_equal(msg.status, EDQUOT);
	assert_int_equal(message_receive(pair[0], &msg, NULL, 0, NULL, NULL, 0), -ENOTCONN);
	close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answers_find_their_askers, start, stop),
		cmocka_unit_test_setup_teardown(mail_waits_in_order, start, stop),
		cmocka_unit_test_setup_teardown(posts_wait_for_a_stopped_weftd, start, stop),
		cmocka_unit_test_setup_teardown(frames_wait_for_a_slow_weftd, start, stop),
		cmocka_unit_test_setup_teardown(who_waits_for_an_answer_reads_alone, start, stop),
		cmocka_unit_test_setup_teardown(weftd_dies, start, stop),
		cmocka_unit_test_setup_teardown(a_request_outlives_weftd, start, stop),
		cmocka_unit_test_setup_teardown(weftd_is_told_again, start, stop),
		cmocka_unit_test_setup_teardown(nonsense_ends_the_session, start, stop),
		cmocka_unit_test_setup_teardown(many_threads_ask, start, stop),
		cmocka_unit_test(no_room_for_descriptors),
		cmocka_unit_test(a_refusal_is_heard_though_nobody_read_us),
		cmocka_unit_test(nobody_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
