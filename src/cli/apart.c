#include "cli/apart.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int apart_await(pid_t child, const sigset_t *signals)
{
	siginfo_t info;
	int status = 0;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (sigwaitinfo(signals, &info) > 0 && info.si_signo != SIGCHLD)
			kill(child, info.si_signo);
	}
	return status;
}

static void be_apart(int (*run)(void *arg), void *arg, pid_t parent)
{
	int status;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		raise(SIGTERM);
	status = run(arg);
	fflush(NULL);
	_exit(status);
}

/* Whoever is killed for nobody reading its output any more has nothing to say about it. */
static int conclude(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (WTERMSIG(status) != SIGPIPE)
		cli_fail("run it again", "the process that runs the programs has been killed");
	return 128 + WTERMSIG(status);
}

int apart_run(int (*run)(void *arg), void *arg)
{
	pid_t child, self = getpid();
	int ends[2], status;
	sigset_t signals;
	char byte;

	if (pipe2(ends, O_CLOEXEC))
		return cli_fail("raise the limit of descriptors (ulimit -n)",
				"there is no pipe to the process that runs the programs: %s", strerror(errno));
	fflush(NULL);
	child = fork();
	if (child == 0)
		be_apart(run, arg, self);
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return cli_fail("end other programs", "cannot fork: %s", strerror(errno));
	}
	sigprocmask(SIG_BLOCK, NULL, &signals);
	status = apart_await(child, &signals);
	/* a killed child's own children have the other end until they have cleaned up */
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(ends[0]);
	return conclude(status);
}
