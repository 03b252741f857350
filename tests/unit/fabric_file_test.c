/* The fabric of a running network is mapped as it was written, and a file that has none is refused and left. */
#include "control/fabric_file.h"

#include "fabric.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_file(off_t bytes)
{
	int fd = memfd_create("fabric", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	return fd;
}

/* Does anything in this process map the file? */
static bool is_mapped(int fd)
{
	char line[512], inode[32];
	FILE *maps = fopen("/proc/self/maps", "re");
	struct stat st;
	bool found = false;

	assert_non_null(maps);
	assert_int_equal(fstat(fd, &st), 0);
	snprintf(inode, sizeof(inode), " %llu ", (unsigned long long)st.st_ino);
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, "/memfd:fabric") && strstr(line, inode);
	fclose(maps);
	return found;
}

static void a_fabric_is_mapped_and_unmapped(void **state)
{
	struct test_fabric t;
	struct fabric f;
	char why[200];
	int fd;

	MAKE(&t, "line", "switches=2");
	fd = make_file(0);
	assert_int_equal(write(fd, t.mapping, t.bytes), t.bytes);
	for (int is_writer = 0; is_writer < 2; is_writer++) {
		assert_int_equal(fabric_file_map(&f, fd, is_writer, why, sizeof(why)), 0);
		assert_true(is_mapped(fd));
		assert_int_equal(f.nodes, t.f.nodes);
		assert_int_equal(f.bytes, t.bytes);
		fabric_file_unmap(&f);
		assert_false(is_mapped(fd));
		assert_null(f.head);
	}
	fabric_file_unmap(&f);
	close(fd);
	end_fabric(&t);
}

static void what_is_no_fabric_is_refused(void **state)
{
	static const struct {
		off_t bytes;
		const char *why;
	} files[] = { { 0, "its file has 0 bytes" }, { FABRIC_BYTES_MOST + 1, "its file has 536870913 bytes" },
		      { 4096, "it is no fabric of weft" } };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		int fd = make_file(files[i].bytes);
		struct fabric f = { 0 };
		char why[200] = "";

		assert_int_equal(fabric_file_map(&f, fd, false, why, sizeof(why)), -EINVAL);
		assert_string_equal(why, files[i].why);
		assert_false(is_mapped(fd));
		fabric_file_unmap(&f);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fabric_is_mapped_and_unmapped), cmocka_unit_test(what_is_no_fabric_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
