/* Memory files of a peer: when weftd is asked for them, and what counts as one. weftd is the other end of a socket. */
#include "link/memfile.h"
#include "peers/mapped_files.h"
#include "peers/peers.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLOT = 7, FILE_NUMBER = 3, BYTES = 4096 };

static struct fixture {
	struct ca ca;
	struct session session;
	struct peers peers;
	struct mapped_files files;
	int weftd;
} *f;

static int set_up(void **state)
{
	int pair[2];

	(void)state;
	f = calloc(1, sizeof(*f));
	if (!f || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	f->session.socket = pair[0];
	f->weftd = pair[1];
	atomic_store(&f->session.state, SESSION_ATTACHED);
	f->peers.ca = &f->ca;
	f->peers.session = &f->session;
	f->ca.now = WTIME_S;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mapped_close(&f->files);
	close(f->session.socket);
	close(f->weftd);
	free(f);
	return 0;
}

static void *reach(void)
{
	return mapped_reach(&f->peers, &f->files, SLOT, FILE_NUMBER, 0, BYTES);
}

/* How many questions weftd has got since it was looked at. */
static unsigned asked(void)
{
	struct control_msg msg;
	unsigned n = 0;

	for (; recv(f->weftd, &msg, sizeof(msg), MSG_DONTWAIT) >= (ssize_t)sizeof(msg); n++) {
		assert_int_equal(msg.type, CTL_MAP);
		assert_int_equal(msg.slot, SLOT);
		assert_int_equal(msg.b, FILE_NUMBER);
	}
	return n;
}

static int memory_file(int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void a_file_that_comes_late_is_waited_for(void **state)
{
	unsigned questions = 0;
	int fd = memory_file(F_SEAL_SHRINK);

	(void)state;
	/* "not there yet", as often as it is asked, for half a second in which the program uses the file all the time */
	for (wtime end = f->ca.now + WTIME_S / 2; f->ca.now < end; f->ca.now += 10 * WTIME_US) {
		assert_null(reach());
		assert_null(reach());
		questions += asked();
		mapped_answer(&f->files, FILE_NUMBER, -1);
	}
	assert_in_range(questions, 2, 14);
	f->ca.now += WTIME_S;
	assert_null(reach());
	assert_int_equal(asked(), 1);
	mapped_answer(&f->files, FILE_NUMBER, fd);
	assert_non_null(reach());
	assert_true(mapped_any(&f->files));
	close(fd);
}

static void one_question_at_a_time(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++, f->ca.now += WTIME_S)
		assert_null(reach());
	assert_int_equal(asked(), 1);
	/* weftd has gone, and the next one is asked */
	mapped_unasked(&f->files);
	assert_null(reach());
	assert_int_equal(asked(), 1);
}

static void a_file_that_is_not_there_is_asked_for_no_more(void **state)
{
	unsigned questions = 0;

	(void)state;
	for (int i = 0; i < 100; i++, f->ca.now += WTIME_S) {
		assert_null(reach());
		questions += asked();
		mapped_answer(&f->files, FILE_NUMBER, -1);
	}
	assert_in_range(questions, 2, 15);
}

static void a_file_that_may_shrink_is_none(void **state)
{
	int fd = memory_file(F_SEAL_GROW);

	(void)state;
	assert_null(reach());
	mapped_answer(&f->files, FILE_NUMBER, fd);
	f->ca.now += WTIME_S;
	assert_null(reach());
	assert_int_equal(asked(), 1);
	close(fd);
}

static void what_lies_outside_the_file_is_not_reached(void **state)
{
	int fd = memory_file(F_SEAL_SHRINK);

	(void)state;
	assert_null(reach());
	mapped_answer(&f->files, FILE_NUMBER, fd);
	assert_non_null(mapped_reach(&f->peers, &f->files, SLOT, FILE_NUMBER, BYTES - 8, 8));
	assert_null(mapped_reach(&f->peers, &f->files, SLOT, FILE_NUMBER, BYTES - 8, 9));
	assert_null(mapped_reach(&f->peers, &f->files, SLOT, FILE_NUMBER, UINT64_MAX, 8));
	assert_null(mapped_reach(&f->peers, &f->files, SLOT, 0, 0, 8));
	assert_null(mapped_reach(&f->peers, &f->files, SLOT, CONTROL_FILES + 1, 0, 8));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_that_comes_late_is_waited_for, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_question_at_a_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_file_that_is_not_there_is_asked_for_no_more, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_file_that_may_shrink_is_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_lies_outside_the_file_is_not_reached, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("mapped_files", tests, NULL, NULL);
}
