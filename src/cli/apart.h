/* Work in a process that has no children yet. This process may have some, as exec keeps the jobs of a shell. */
#ifndef WEFT_CLI_APART_H
#define WEFT_CLI_APART_H

#include <signal.h>
#include <sys/types.h>

/* Runs run(arg) in a child and hands on the signals that this process gets; the caller has blocked them, and SIGCHLD. The child
 * gets SIGTERM when this process ends. Returns once the child, and what it has forked without exec, has ended: what run returned,
 * or 128 + N, with a message, when signal N killed the child. */
int apart_run(int (*run)(void *arg), void *arg);

/* Waits for the child and hands on the signals, which are blocked. Its status as waitpid has it. */
int apart_await(pid_t child, const sigset_t *signals);

#endif
