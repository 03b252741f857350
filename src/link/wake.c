#include "link/wake.h"

#include <errno.h>
#include <linux/timerfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void settime(int fd, long ns)
{
	struct itimerspec at = { .it_value.tv_nsec = ns };

	syscall(SYS_timerfd_settime, fd, 0, &at, NULL);
}

/* CLOCK_MONOTONIC: a timer of a clock that can be set can be cancelled by whoever holds it. */
int wake_timer_create(void)
{
	int fd = (int)syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

void wake_timer_set(int fd)
{
	uint64_t ticks = 1;

	/* most kernels have it (CONFIG_CHECKPOINT_RESTORE); without, the timer expires at once, at ten times the cost */
	if (ioctl(fd, TFD_IOC_SET_TICKS, &ticks) < 0)
		settime(fd, 1);
}

void wake_timer_clear(int fd)
{
	settime(fd, 0);
}
