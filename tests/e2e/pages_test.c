/* Pages that move into a memory file and back while everybody uses them: nothing that a thread or a system call writes may
 * be lost. pages_test [ROUNDS]; as root it runs once more as nobody, for whom system calls do not wait. */
#include "remap/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WRITERS = 3, PAGES = 24, PAGE_WORDS = 512, SHARED_WORD = 100, READ_WORD = 200, TEXT_WORD = 300, NOBODY = 65534 };

static unsigned rounds = 2000;
static bool kernel_waits;

struct scene {
	uint64_t (*page)[PAGE_WORDS];
	int fd, uffd;
	atomic_bool over;
	atomic_uint running;
	_Atomic uint64_t added;		/* to the words that all threads add to */
	uint64_t refused;		/* system calls */
};

struct writer {
	struct scene *scene;
	unsigned number;
	uint64_t count[PAGES];		/* of the words that it has for itself */
};

static size_t scene_bytes(void)
{
	return PAGES * sizeof(uint64_t[PAGE_WORDS]);
}

static void scene_init(struct scene *s)
{
	*s = (struct scene){ .uffd = pages_open(&kernel_waits), .fd = memfd_create("pages-test", MFD_CLOEXEC) };
	assert_true(s->uffd >= 0);
	assert_int_equal(ftruncate(s->fd, (off_t)scene_bytes()), 0);
	s->page = mmap(NULL, scene_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s->page, MAP_FAILED);
}

static void scene_fini(struct scene *s)
{
	munmap(s->page, scene_bytes());
	close(s->fd);
	close(s->uffd);
}

static void move_out(struct scene *s)
{
	assert_int_equal(pages_share(s->uffd, (uint8_t *)s->page, scene_bytes(), s->fd, 0), 0);
}

static void move_back(struct scene *s)
{
	assert_int_equal(pages_unshare(s->uffd, (uint8_t *)s->page, scene_bytes(), s->fd, 0), 0);
	assert_int_equal(fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)scene_bytes()), 0);
}

static bool is_shared(const struct scene *s)
{
	char line[512];
	unsigned long start, end;
	FILE *maps = fopen("/proc/self/maps", "r");
	bool shared = false;

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (uintptr_t)s->page && (uintptr_t)s->page < end)
			shared = strstr(line, "pages-test");
	fclose(maps);
	return shared;
}

/* For threads that are not cmocka's. */
static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/* Plain increments of its own words and atomic ones of common words, both in the same pages as everybody else's. */
static void *count_up(void *arg)
{
	struct writer *w = arg;
	struct scene *s = w->scene;
	uint64_t seed = w->number + 1;

	atomic_fetch_add(&s->running, 1);
	while (!atomic_load_explicit(&s->over, memory_order_relaxed)) {
		unsigned page = (unsigned)(next_random(&seed) % PAGES);

		++*(volatile uint64_t *)&s->page[page][w->number];
		w->count[page]++;
		atomic_fetch_add((_Atomic uint64_t *)&s->page[page][SHARED_WORD], 1);
		atomic_fetch_add_explicit(&s->added, 1, memory_order_relaxed);
	}
	return NULL;
}

static bool through_pipe(const int fd[2], const void *from, void *to, struct scene *s)
{
	bool done;

	must(write(fd[1], from, sizeof(uint64_t)) == sizeof(uint64_t), "write() out of the pages failed");
	done = read(fd[0], to, sizeof(uint64_t)) == sizeof(uint64_t);
	if (!done) {
		uint64_t rest;

		must(errno == EFAULT && read(fd[0], &rest, sizeof(rest)) == sizeof(rest),
		     "read() failed otherwise than with EFAULT");
		s->refused++;
	}
	return done;
}

/* read() into the pages: what it said it had read stays. write() out of them never fails. */
static void *read_in(void *arg)
{
	struct writer *w = arg;
	struct scene *s = w->scene;
	uint64_t seed = 77, value = 0, back, kept[PAGES] = { 0 };
	int fd[2];

	must(pipe(fd) == 0, "no pipe");
	atomic_fetch_add(&s->running, 1);
	while (!atomic_load_explicit(&s->over, memory_order_relaxed)) {
		unsigned page = (unsigned)(next_random(&seed) % PAGES);

		value++;
		if (through_pipe(fd, &value, &s->page[page][READ_WORD], s))
			kept[page] = value;
		page = (unsigned)(next_random(&seed) % PAGES);
		must(through_pipe(fd, &s->page[page][READ_WORD], &back, s), "read() into other memory failed");
		must(back == kept[page], "what read() had written is gone");
	}
	close(fd[0]);
	close(fd[1]);
	return NULL;
}

static void check_counts(const struct scene *s, const struct writer *w)
{
	uint64_t added = 0;

	for (unsigned page = 0; page < PAGES; page++) {
		for (unsigned i = 0; i < WRITERS; i++)
			if (s->page[page][i] != w[i].count[page])
				fail_msg("thread %u counted %lu in page %u, where %lu is", i,
					 (unsigned long)w[i].count[page], page, (unsigned long)s->page[page][i]);
		added += s->page[page][SHARED_WORD];
	}
	assert_int_equal(added, s->added);
}

static void no_write_is_lost(void **state)
{
	struct scene s;
	struct writer w[WRITERS + 1] = { 0 };
	pthread_t thread[WRITERS + 1];

	scene_init(&s);
	for (unsigned i = 0; i <= WRITERS; i++) {
		w[i].scene = &s;
		w[i].number = i;
		assert_int_equal(pthread_create(&thread[i], NULL, i < WRITERS ? count_up : read_in, &w[i]), 0);
	}
	while (atomic_load(&s.running) <= WRITERS)
		sched_yield();
	for (unsigned n = 0; n < rounds; n++) {
		move_out(&s);
		move_back(&s);
	}
	atomic_store(&s.over, true);
	for (unsigned i = 0; i <= WRITERS; i++)
		pthread_join(thread[i], NULL);
	check_counts(&s, w);
	if (kernel_waits)
		assert_int_equal(s.refused, 0);
	printf("%u moves there and back, %lu counts, %lu reads refused\n", rounds, (unsigned long)s.added,
	       (unsigned long)s.refused);
	scene_fini(&s);
	(void)state;
}

static void content_moves_and_holes_stay(void **state)
{
	struct scene s;

	scene_init(&s);
	s.page[3][TEXT_WORD] = 3;
	s.page[PAGES - 1][PAGE_WORDS - 1] = 4;
	move_out(&s);
	assert_true(is_shared(&s));
	assert_int_equal(s.page[3][TEXT_WORD], 3);
	assert_int_equal(s.page[PAGES - 1][PAGE_WORDS - 1], 4);
	assert_int_equal(lseek(s.fd, 0, SEEK_DATA), 3 * sizeof(s.page[0]));
	s.page[5][0] = 5;
	move_back(&s);
	assert_false(is_shared(&s));
	assert_int_equal(s.page[3][TEXT_WORD], 3);
	assert_int_equal(s.page[5][0], 5);
	assert_int_equal(s.page[PAGES - 1][PAGE_WORDS - 1], 4);
	assert_int_equal(s.page[6][0], 0);
	scene_fini(&s);
	(void)state;
}

/* A page that cannot be written: the range stays as it was, and whoever waits goes on. */
static void what_fails_leaves_the_pages(void **state)
{
	struct scene s;
	int wrong;

	scene_init(&s);
	s.page[0][0] = 1;
	wrong = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	assert_true(pages_share(s.uffd, (uint8_t *)s.page, scene_bytes(), wrong, 0) < 0);
	assert_false(is_shared(&s));
	s.page[0][0]++;
	move_out(&s);
	assert_true(pages_unshare(s.uffd, (uint8_t *)s.page, scene_bytes(), wrong, 0) < 0);
	assert_true(is_shared(&s));
	s.page[0][0]++;
	assert_int_equal(s.page[0][0], 3);
	close(wrong);
	scene_fini(&s);
	(void)state;
}

static int run_as_nobody(char **argv)
{
	int status = 1;
	pid_t child = fork();

	if (child == 0) {
		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
			_exit(1);
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(content_moves_and_holes_stay), cmocka_unit_test(what_fails_leaves_the_pages),
		cmocka_unit_test(no_write_is_lost),
	};
	int fd = pages_open(&kernel_waits);

	if (fd < 0) {
		printf("no pages move on this system: %s\n", strerror(-fd));
		return 77;
	}
	close(fd);
	if (argc > 1)
		rounds = (unsigned)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL) | (getuid() == 0 ? run_as_nobody(argv) : 0);
}
