#include "cli/member.h"

#include "cli/cli.h"
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { READS = 16 };	/* in one call: our choice */

/* A pair of descriptors as pipe2 makes one. The terminal adds nothing to what is printed, and echoes nothing. */
static int open_terminal(int ends[2])
{
	struct termios t;
	char name[64];

	ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (ends[0] < 0)
		return -1;
	ends[1] = grantpt(ends[0]) || unlockpt(ends[0]) || ptsname_r(ends[0], name, sizeof(name)) ?
		-1 : open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (ends[1] < 0) {
		close(ends[0]);
		return -1;
	}
	if (tcgetattr(ends[1], &t) == 0) {
		t.c_oflag &= ~(tcflag_t)OPOST;
		t.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(ends[1], TCSANOW, &t);
	}
	return 0;
}

static void become(char **argv, int output, const sigset_t *mask, pid_t parent)
{
	int nothing = open("/dev/null", O_RDONLY);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	setpgid(0, 0);
	dup2(nothing, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	if (nothing > STDERR_FILENO)
		close(nothing);
	sigprocmask(SIG_SETMASK, mask, NULL);
	_exit(run_execute(argv));
}

int member_start(struct member *m, char **argv, bool with_terminal, const sigset_t *mask)
{
	pid_t parent = getpid();
	int ends[2];

	if (with_terminal ? open_terminal(ends) : pipe2(ends, O_CLOEXEC))
		return cli_fail(NULL, "no way to read the output of %s: %s", m->name, strerror(errno));
	fflush(NULL);
	m->pid = fork();
	if (m->pid == 0)
		become(argv, ends[1], mask, parent);
	close(ends[1]);
	if (m->pid < 0) {
		m->pid = 0;
		close(ends[0]);
		return cli_fail("end other programs", "%s cannot be started: %s", m->name, strerror(errno));
	}
	setpgid(m->pid, m->pid);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	m->output = ends[0];
	return EXIT_OK;
}

static void print_line(struct member *m, size_t bytes, struct member_log *log)
{
	fprintf(log->to, "%s: %.*s\n", m->name, (int)bytes, m->line);
}

static void look_for(const char *line, struct member_log *log)
{
	if (log->wanted && !log->is_found)
		log->is_found = regexec(log->wanted, line, 0, NULL, 0) == 0;
}

static void take_lines(struct member *m, struct member_log *log)
{
	char *end;

	m->line[m->bytes] = '\0';
	for (size_t i = 0; i < m->bytes; i++)
		m->line[i] = m->line[i] ? m->line[i] : ' ';
	while ((end = strchr(m->line, '\n')) || m->bytes == MEMBER_LINE) {
		size_t length = end ? (size_t)(end - m->line) : m->bytes, taken = length + (end != NULL);

		m->line[length] = '\0';
		look_for(m->line, log);
		print_line(m, length, log);
		m->bytes -= taken;
		memmove(m->line, m->line + taken, m->bytes);
		m->line[m->bytes] = '\0';
	}
	/* a prompt has no end */
	look_for(m->line, log);
}

void member_read(struct member *m, struct member_log *log)
{
	ssize_t n = 1;

	/* a program that prints without pause does not keep the caller from its signals and its clock */
	for (int i = 0; i < READS && m->output >= 0 && n > 0; i++) {
		n = read(m->output, m->line + m->bytes, MEMBER_LINE - m->bytes);
		if (n <= 0)
			break;
		m->bytes += (size_t)n;
		take_lines(m, log);
	}
	if (m->output >= 0 && n <= 0 && !(n < 0 && (errno == EAGAIN || errno == EINTR)))
		member_close(m, log);	/* a terminal that nobody has open any more says EIO */
	fflush(log->to);
}

void member_close(struct member *m, struct member_log *log)
{
	if (m->output < 0)
		return;
	if (m->bytes)
		print_line(m, m->bytes, log);
	m->bytes = 0;
	close(m->output);
	m->output = -1;
	fflush(log->to);
}

bool member_runs(const struct member *m)
{
	return m->pid > 0 && m->status < 0;
}

bool member_reap(struct member *m)
{
	siginfo_t info = { 0 };

	if (!member_runs(m) || waitid(P_PID, (id_t)m->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
		return false;
	m->status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
	return true;
}

void member_signal(struct member *m, int signal)
{
	if (m->pid <= 0)
		return;
	m->was_ended |= member_runs(m);
	kill(-m->pid, signal);
}
