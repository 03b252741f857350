/* System calls for who holds a lock: glibc's functions of these names are cancellation points, and a thread that is cancelled
 * inside one takes the lock along. These are none, but for call_wait, which is for who holds nothing. As the functions
 * otherwise. */
#ifndef WEFT_LINK_CALLS_H
#define WEFT_LINK_CALLS_H

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Adds one to an eventfd. */
static inline int call_wake(int fd)
{
	const uint64_t one = 1;

	return syscall(SYS_write, fd, &one, sizeof(one)) < 0 ? -1 : 0;
}

static inline ssize_t call_pwrite(int fd, const void *from, size_t bytes, uint64_t offset)
{
	return syscall(SYS_pwrite64, fd, from, bytes, offset);
}

static inline ssize_t call_pread(int fd, void *to, size_t bytes, uint64_t offset)
{
	return syscall(SYS_pread64, fd, to, bytes, offset);
}

/* The last number is the offset's upper half where a register is narrower. */
static inline ssize_t call_pwritev(int fd, const struct iovec *iov, int iovs, uint64_t offset)
{
	return syscall(SYS_pwritev, fd, iov, iovs, offset, 0);
}

static inline ssize_t call_preadv(int fd, const struct iovec *iov, int iovs, uint64_t offset)
{
	return syscall(SYS_preadv, fd, iov, iovs, offset, 0);
}

/* Reads an eventfd or a pipe without waiting. */
static inline ssize_t call_read_now(int fd, const struct iovec *iov)
{
	return syscall(SYS_preadv2, fd, iov, 1, -1L, 0, RWF_NOWAIT);
}

/* Sleeps on a futex while it has this value; op: FUTEX_WAIT or FUTEX_WAIT_PRIVATE. As read(2): after a signal started again if
 * its handler wants that, else -EINTR, and a cancellation point in the state that the program has chosen. The caller cannot be
 * cancelled before and after. */
static inline int call_wait(const void *word, int op, uint32_t value, int cancel_state)
{
	int type, err;

	pthread_setcancelstate(cancel_state, NULL);
	/* NOLINTNEXTLINE(cert-pos47-c) ; around one system call, which holds nothing */
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	err = syscall(SYS_futex, word, op, value, NULL, NULL, 0) < 0 ? errno : 0;
	pthread_setcanceltype(type, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return err == EINTR ? -EINTR : 0;
}

#endif
