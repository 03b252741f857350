/* Memory files: a size that stays, limits that are heeded, and descriptors out of the way. */
#include "link/memfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 };

static void the_size_stays(void **state)
{
	int fd = memfile_create_fixed("test", BYTES);

	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(memfile_is_fixed(fd, BYTES));
	assert_false(memfile_is_fixed(fd, BYTES + 1));
	assert_int_equal(ftruncate(fd, BYTES - 1), -1);
	assert_int_equal(ftruncate(fd, BYTES + 1), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	close(fd);
}

static void what_may_shrink_is_not_fixed(void **state)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC), other = open("/dev/zero", O_RDWR | O_CLOEXEC);

	assert_int_equal(ftruncate(fd, BYTES), 0);
	assert_false(memfile_is_fixed(fd, 0));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_false(memfile_is_fixed(fd, 0));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_true(memfile_is_fixed(fd, BYTES));
	assert_false(memfile_is_fixed(other, 0));
	assert_false(memfile_is_fixed(-1, 0));
	close(fd);
	close(other);
}

static void limited_sizes_are_an_error(void **state)
{
	struct rlimit was, low = { .rlim_cur = BYTES };

	getrlimit(RLIMIT_FSIZE, &was);
	low.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	assert_int_equal(memfile_create_fixed("test", BYTES + 1), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &was);
}

static void low_numbers_are_left_to_the_program(void **state)
{
	int fd = memfile_create_fixed("test", BYTES), away;
	struct rlimit was, low = { .rlim_cur = 100 };
	struct stat before, after;

	getrlimit(RLIMIT_NOFILE, &was);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ was.rlim_max, was.rlim_max });
	assert_int_equal(fstat(fd, &before), 0);
	away = memfile_move_away(fd);
	assert_true(away >= 900);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(fstat(away, &after), 0);
	assert_true(before.st_ino == after.st_ino);
	assert_true(fcntl(away, F_GETFD) & FD_CLOEXEC);
	close(away);
	fd = memfile_create_fixed("test", BYTES);
	low.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(memfile_move_away(fd), fd);
	setrlimit(RLIMIT_NOFILE, &was);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_size_stays), cmocka_unit_test(what_may_shrink_is_not_fixed),
		cmocka_unit_test(limited_sizes_are_an_error), cmocka_unit_test(low_numbers_are_left_to_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
