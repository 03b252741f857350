/* Memory at the pointers of who calls the rdma_cm device: what the kernel is asked about, and what it refuses. */
#include "abi/ucm/ucm_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>

enum { PAGE = 4096, STACK = 64 * PAGE };

/* In place of libc's: a kernel that can reach all of this process's memory, or nothing. */
static int calls;
static bool refuses;

static ssize_t ask(void *to, const void *from, size_t bytes)
{
	calls++;
	if (refuses) {
		errno = EFAULT;
		return -1;
	}
	memcpy(to, from, bytes);
	return (ssize_t)bytes;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
			 unsigned long remotes, unsigned long flags)
{
	return ask(local->iov_base, remote->iov_base, local->iov_len);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
			  unsigned long remotes, unsigned long flags)
{
	return ask(remote->iov_base, local->iov_base, local->iov_len);
}

/* To this memory and back; how often the kernel was asked, or -1: not both were done. */
static int copies(void *at)
{
	const char words[] = "as they were";
	char back[sizeof(words)] = "";

	calls = 0;
	if (ucm_copy_out((uintptr_t)at, words, sizeof(words)) || ucm_copy_in(back, (uintptr_t)at, sizeof(back)) ||
	    memcmp(back, words, sizeof(words)))
		return -1;
	return calls;
}

static int refusals(const void *at, size_t bytes)
{
	char block[64] = "";
	int n;

	refuses = true;
	n = (ucm_copy_out((uintptr_t)at, block, bytes) == -EFAULT) + (ucm_copy_in(block, (uintptr_t)at, bytes) == -EFAULT);
	refuses = false;
	return n;
}

static void the_callers_stack_needs_no_call(void **state)
{
	char room[64];

	(void)state;
	assert_int_equal(copies(room), 0);
}

static void other_memory_is_asked_for(void **state)
{
	static char room[64];
	char *heap = malloc(64);

	(void)state;
	assert_int_equal(copies(room), 2);
	assert_int_equal(copies(heap), 2);
	free(heap);
}

static void bad_pointers_are_refused(void **state)
{
	char *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(none, MAP_FAILED);
	assert_int_equal(refusals(NULL, 8), 2);
	assert_int_equal(refusals(none, 8), 2);
	assert_int_equal(refusals((void *)(UINTPTR_MAX - 4), 8), 2);
	munmap(none, PAGE);
}

/* A stack between two pages that nobody may touch. */
static char *make_stack(void)
{
	char *stack = mmap(NULL, STACK + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(stack, MAP_FAILED);
	assert_int_equal(mprotect(stack + PAGE, STACK, PROT_READ | PROT_WRITE), 0);
	return stack + PAGE;
}

static void end_stack(char *stack)
{
	munmap(stack - PAGE, STACK + 2 * PAGE);
}

struct look {
	char *stack;
	int own, beyond_its_end, below_its_end, unused;
};

/* The lowest page of the stack is not used yet, and may be gone. */
static void *look_around(void *arg)
{
	struct look *look = arg;
	char room[64];

	look->own = copies(room);
	look->beyond_its_end = refusals(look->stack + STACK - 8, 16);
	look->below_its_end = refusals(look->stack + STACK, 8);
	mprotect(look->stack, PAGE, PROT_NONE);
	look->unused = refusals(look->stack + 8, 8);
	mprotect(look->stack, PAGE, PROT_READ | PROT_WRITE);
	return NULL;
}

static void the_stack_of_a_thread_has_ends(void **state)
{
	struct look look = { .stack = make_stack() };
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, look.stack, STACK), 0);
	assert_int_equal(pthread_create(&thread, &attr, look_around, &look), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	end_stack(look.stack);
	assert_int_equal(look.own, 0);
	assert_int_equal(look.beyond_its_end, 2);
	assert_int_equal(look.below_its_end, 2);
	assert_int_equal(look.unused, 2);
}

static ucontext_t before, inside;
static void *elsewhere;
static int here_asked, elsewhere_asked;

static void run_inside(void)
{
	char room[64];

	here_asked = copies(room);
	elsewhere_asked = copies(elsewhere);
}

/* Programs switch stacks by themselves: then nothing is known of any. */
static void on_a_stack_of_the_programs_the_kernel_is_asked(void **state)
{
	char *stack = make_stack(), room[64];

	(void)state;
	assert_int_equal(copies(room), 0);
	elsewhere = room;
	assert_int_equal(getcontext(&inside), 0);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = STACK;
	inside.uc_link = &before;
	makecontext(&inside, run_inside, 0);
	assert_int_equal(swapcontext(&before, &inside), 0);
	assert_int_equal(here_asked, 2);
	assert_int_equal(elsewhere_asked, 2);
	end_stack(stack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_callers_stack_needs_no_call),
		cmocka_unit_test(other_memory_is_asked_for),
		cmocka_unit_test(bad_pointers_are_refused),
		cmocka_unit_test(the_stack_of_a_thread_has_ends),
		cmocka_unit_test(on_a_stack_of_the_programs_the_kernel_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
