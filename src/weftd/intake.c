/* A child is a fork: it ends in milliseconds, or stays with what holds it back, which is then the user's own loss. A child
 * that ends closes what is in its sockets without waiting, as the kernel lets nothing linger for a process that exits; only
 * descriptors in its table may hold it. One child is made in advance and waits for its socket, as a fork takes longer than all
 * the rest; it is used once, as the others. */
#include "weftd/intake.h"

#include "base/log.h"
#include "control/message.h"
#include "weftd/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

struct intake {
	struct list_node node;	/* intake_set.all */
	pid_t pid;
	int pidfd;		/* owned */
	int answer;		/* owned; -1: nobody waits for it */
	uint32_t user;		/* NOBODY: it works for none */
	bool is_apart;		/* it has closed what else weftd has open, or only ends */
};

struct refused {
	struct list_node node;	/* intake_set.refuse */
	int socket;		/* owned */
};

static const uint32_t NOBODY = UINT32_MAX;

/* Our choice: by then who has come has what he asks for at first, and does not wait for the fork. */
static const wtime SPARE_AFTER = WTIME_MS / 2;

/* Our choice: a child needs no longer to close what it does not need, if it has a processor. */
static const wtime SWEEP_AFTER = WTIME_MS;

void intake_init(struct intake_set *set)
{
	*set = (struct intake_set){ .epoll_fd = -1, .self = getpid(), .sweep_by = WTIME_NEVER };
	list_init(&set->all);
	list_init(&set->refuse);
}

/* ---- the child ---- */

bool intake_is_eventfd(int fd)
{
	char link[48], target[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	/* the name of a file in a file system begins with a slash */
	return strcmp(target, "anon_inode:[eventfd]") == 0;
}

/* Only the kernel's own memory files have seals. */
static bool is_memory_file(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

/* No other file system can say that it is this one. */
static bool is_process_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static bool is_fit(uint32_t type, int i, int fd)
{
	if (type == CTL_HELLO && i == 0)
		return intake_is_eventfd(fd);
	if (type == CTL_HELLO && i == 2)
		return is_process_memory(fd);
	return is_memory_file(fd);
}

/* Whatever else weftd has open must not stay open with a child that is held back. weftd has it open until it is told: what is
 * closed here is closed by weftd last. */
static void keep_only(int socket, int answer)
{
	unsigned low = (unsigned)(socket < answer ? socket : answer), high = (unsigned)(socket < answer ? answer : socket);

	if (low > 3)
		descriptors_close(3, low - 1);
	if (high > low + 1)
		descriptors_close(low + 1, high - 1);
	descriptors_close(high + 1, ~0U);
	send(answer, "", 1, MSG_NOSIGNAL);
}

_Noreturn static void receive(int socket, int answer)
{
	struct control_msg msg = { 0 };
	int fds[CONTROL_FDS], nfds = 0, err;

	err = message_receive(socket, &msg, NULL, 0, fds, &nfds, MSG_DONTWAIT);
	for (int i = 0; i < nfds && !err; i++)
		err = is_fit(msg.type, i, fds[i]) ? 0 : -EBADF;
	msg.status = -err;
	msg.text_bytes = 0;
	message_send(answer, &msg, NULL, fds, err ? 0 : nfds, 0);
	_exit(0);
}

_Noreturn static void receive_now(int socket, int answer)
{
	prctl(PR_SET_NAME, "weftd-intake");
	keep_only(socket, answer);
	receive(socket, answer);
}

/* The socket comes from weftd. Somebody else may have weftd's end of the pair open when weftd ends. */
_Noreturn static void receive_later(int answer, pid_t parent)
{
	struct control_msg msg;
	int fds[CONTROL_FDS], nfds = 0;

	prctl(PR_SET_NAME, "weftd-intake");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	keep_only(answer, answer);
	if (getppid() != parent || message_receive(answer, &msg, NULL, 0, fds, &nfds, 0) || nfds != 1)
		_exit(0);
	receive(fds[0], answer);
}

/* ---- weftd ---- */

static int users_children(const struct intake_set *set, uint32_t user)
{
	int n = 0;

	list_for_each(in, &set->all, struct intake, node)
		n += in->user == user && in->pidfd >= 0;
	return n;
}

/* A child's first message says so. Who has ended has nothing open either. */
static bool is_apart(struct intake *in)
{
	char byte;

	if (!in->is_apart && in->answer >= 0)
		in->is_apart = recv(in->answer, &byte, sizeof(byte), MSG_DONTWAIT) >= 0 || errno != EAGAIN;
	return in->is_apart || in->pidfd < 0;
}

static bool are_apart(const struct intake_set *set)
{
	list_for_each(in, &set->all, struct intake, node) {
		if (!is_apart(in))
			return false;
	}
	return true;
}

/* The child is seen to end through its pidfd. */
static int adopt(struct intake_set *set, struct intake *in)
{
	struct epoll_event e = { .events = EPOLLIN };

	in->pidfd = (int)syscall(SYS_pidfd_open, in->pid, 0);
	if (in->pidfd < 0)
		return -errno;
	list_append(&set->all, &in->node);
	e.data.fd = in->pidfd;
	return epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, in->pidfd, &e) ? -errno : 0;
}

/* A child of the moment may have it open too: closing alone would not take it off. */
static void close_pidfd(const struct intake_set *set, struct intake *in)
{
	if (in->pidfd < 0)
		return;
	epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, in->pidfd, NULL);
	close(in->pidfd);
	in->pidfd = -1;
}

static void forget(const struct intake_set *set, struct intake *in)
{
	list_remove(&in->node);
	if (in->answer >= 0)
		close(in->answer);
	close_pidfd(set, in);
	free(in);
}

/* In the child: 0. In weftd: the child, whose end of the pair is in *answer; or -errno. */
static pid_t fork_with_pair(int *answer)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	pid = fork();
	*answer = pair[pid == 0];
	close(pair[pid != 0]);
	if (pid >= 0)
		return pid;
	close(pair[0]);
	return -EAGAIN;
}

/* Of a child that nothing can hold back, as it has received nothing. */
static void end_at_once(struct intake *in)
{
	if (in->pid > 0 && kill(in->pid, SIGKILL) == 0)
		waitpid(in->pid, NULL, 0);
	in->is_apart = true;
}

/* socket -1: a child that waits for one. */
static int make(struct intake_set *set, int socket, uint32_t user, struct intake **intake)
{
	struct intake *in = calloc(1, sizeof(*in));
	int err;

	if (!in)
		return -ENOMEM;
	*in = (struct intake){ .pidfd = -1, .answer = -1, .user = user };
	in->pid = fork_with_pair(&in->answer);
	if (in->pid == 0 && socket < 0)
		receive_later(in->answer, set->self);
	else if (in->pid == 0)
		receive_now(socket, in->answer);
	err = in->pid < 0 ? in->pid : adopt(set, in);
	if (err) {
		log_line(LOG_WARNING, "no child can be started to receive a client's descriptors: %s", strerror(-err));
		end_at_once(in);
		forget(set, in);
		return err;
	}
	*intake = in;
	return 0;
}

wtime intake_deadline(const struct intake_set *set)
{
	return list_empty(&set->refuse) ? set->spare_by : wtime_min(set->spare_by, set->sweep_by);
}

void intake_prepare(struct intake_set *set, wtime now)
{
	if (now < set->spare_by)
		return;
	set->spare_by = WTIME_NEVER;
	if (!set->spare && make(set, -1, NOBODY, &set->spare))
		set->spare = NULL;
}

/* NULL: there is none that could be told, be it that somebody has killed it. */
static struct intake *take_spare(struct intake_set *set, int socket, uint32_t user)
{
	struct intake *in = set->spare;
	struct control_msg msg = { 0 };

	set->spare = NULL;
	if (!in)
		return NULL;
	if (message_send(in->answer, &msg, NULL, &socket, 1, MSG_DONTWAIT)) {
		intake_end(set, in);
		return NULL;
	}
	in->user = user;
	return in;
}

int intake_begin(struct intake_set *set, int socket, uint32_t user, wtime now, struct intake **intake)
{
	struct intake *spare;

	if (users_children(set, user) >= INTAKE_USER || set->refused >= INTAKE_REFUSED)
		return -EBUSY;
	set->spare_by = wtime_min(set->spare_by, now + SPARE_AFTER);
	spare = take_spare(set, socket, user);
	if (!spare)
		return make(set, socket, user, intake);
	*intake = spare;
	return 0;
}

int intake_fd(const struct intake *in)
{
	return in->answer;
}

int intake_take(struct intake *in, struct control_msg *msg, int fds[CONTROL_FDS], int *nfds)
{
	int err = is_apart(in) ? message_receive(in->answer, msg, NULL, 0, fds, nfds, MSG_DONTWAIT) : -EAGAIN;

	if (!err && msg->status)
		err = -msg->status;
	else if (err && err != -EMFILE)
		*msg = (struct control_msg){ 0 };
	if (err)
		*nfds = 0;
	return err;
}

/* Who was not apart when it was killed is not held back: it has not received what could. */
void intake_end(struct intake_set *set, struct intake *in)
{
	if (in->pidfd < 0) {
		forget(set, in);
		return;
	}
	syscall(SYS_pidfd_send_signal, in->pidfd, SIGKILL, NULL, 0);
	is_apart(in);
	close(in->answer);
	in->answer = -1;
}

bool intake_ready(struct intake_set *set, int fd)
{
	list_for_each_safe(in, &set->all, struct intake, node) {
		if (in->pidfd != fd)
			continue;
		waitpid(in->pid, NULL, WNOHANG);
		close_pidfd(set, in);
		if (in->answer < 0)
			forget(set, in);
		return true;
	}
	return false;
}

/* ---- connections that end ---- */

/* What has no descriptors is read here. With SO_PASSCRED each message that has no room for its sender's number brings
 * MSG_CTRUNC, which tells one of no bytes from the end. */
static bool is_unread(int socket)
{
	struct msghdr header = { 0 };
	struct control_msg msg;
	bool has_fds;
	int on = 1;

	while (message_peek(socket, &msg, &has_fds) == 0) {
		if (has_fds)
			return true;
		recv(socket, &msg, sizeof(msg), MSG_DONTWAIT);
	}
	setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	return recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT) >= 0 && header.msg_flags & MSG_CTRUNC;
}

/* Who has connected and was not accepted may have sent something. */
static bool accepts(int socket)
{
	int does = 0;
	socklen_t bytes = sizeof(does);

	return getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &does, &bytes) == 0 && does;
}

void intake_close(struct intake_set *set, int socket)
{
	struct refused *r;

	/* from now on nothing more comes */
	shutdown(socket, SHUT_RDWR);
	if (!accepts(socket) && !is_unread(socket)) {
		close(socket);
		return;
	}
	r = malloc(sizeof(*r));
	if (!r)
		return;		/* open for as long as weftd lives, which is better than to wait */
	*r = (struct refused){ .socket = socket };
	list_append(&set->refuse, &r->node);
	set->refused++;
}

static void close_refused(struct intake_set *set)
{
	struct list_node *n;

	while ((n = list_pop(&set->refuse))) {
		struct refused *r = container_of(n, struct refused, node);

		close(r->socket);
		free(r);
	}
	set->refused = 0;
}

/* The child has all that weftd has open too, and is killed when weftd has closed its own. It needs no descriptor, as there
 * may be none. */
void intake_sweep(struct intake_set *set, wtime now)
{
	struct intake *in;

	if (list_empty(&set->refuse))
		return;
	set->sweep_by = now + SWEEP_AFTER;
	in = are_apart(set) ? calloc(1, sizeof(*in)) : NULL;
	if (!in)
		return;
	*in = (struct intake){ .pidfd = -1, .answer = -1, .user = NOBODY, .is_apart = true };
	in->pid = fork();
	if (in->pid == 0) {
		prctl(PR_SET_NAME, "weftd-intake");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == set->self)
			pause();
		_exit(0);
	}
	if (in->pid < 0) {
		free(in);
		return;
	}
	close_refused(set);
	kill(in->pid, SIGKILL);
	if (adopt(set, in)) {
		waitpid(in->pid, NULL, WNOHANG);
		forget(set, in);
	}
}

void intake_fini(struct intake_set *set)
{
	struct list_node *n;

	list_for_each(in, &set->all, struct intake, node) {
		if (!is_apart(in))
			end_at_once(in);
	}
	intake_sweep(set, 0);
	while ((n = list_first(&set->all)))
		forget(set, container_of(n, struct intake, node));
}
