/* weft's own calls, for programs that want to know that they run on it. Found in libibverbs.so.1 under `weft run`; a program
 * that must also run elsewhere looks them up with dlsym. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char *weft_version(void);

struct weft_counter {
	const char *name;	/* as rxe's hw_counters where it has the same; lives as long as the library */
	const char *text;	/* what it counts */
	uint64_t value;
};

/* This process's counters as they are at one moment: fills at most `room` of them and returns how many there are; 0 before
 * the first device was listed. Any thread. */
size_t weft_counters(struct weft_counter *counters, size_t room);

/* Found in libibumad.so.3. So many more receive buffers for the datagrams of this agent of a port that was opened by
 * umad_open_port(3), or fewer: before a burst, and after it. 0 or -errno: ENOENT: there is no such agent; EINVAL: it has not so
 * many, or no such port is open; ENOSPC: there is no memory for more beside what other clients have. Asks weftd and waits for its
 * answer. Any thread.
 *
 * agentid -1: each agent that is registered at this port from now on has so many at once, in place of the default; 0: the default
 * again. 0 or -EINVAL, without a question to weftd: where there is no memory for them, registering fails (umad_register2: ENOSPC,
 * umad_register: -EPERM). */
int weft_umad_buffers(int portid, int agentid, int more);

/* ---- subnet administration of the fabric ----
 *
 * Found in libibumad.so.3: a question to subnet administration from a port, and its whole answer, which may be long. Class
 * version 1 is the protocol before RMPP, which weftd answers: GetTable (0x12) and GetBulk (0x13), answered by records, or by all
 * records with four bytes before each (attribute and bytes, big endian); Config (0x15), by which all its edits are done, or none
 * (weft-sa(1)). Class version 2 is a subnet manager's: GetTable. */

struct weft_sa_question {
	uint8_t class_version, method;
	uint16_t attribute;
	uint16_t window;	/* of version 1: packets that may come at once; 0: 64 */
	uint16_t lid;		/* whom it is for; 0: where weftd answers, a subnet manager's if there is one */
	uint64_t key;		/* of version 1: 0: all records; of version 2: the SM_Key */
	const void *records;	/* of a Config */
	uint32_t bytes;
	uint32_t timeout_ms;	/* of version 1: of all; 0: ten minutes, and one more for each MB that has come, and it ends when
				 * nobody is heard. Of 2: until the answer begins, and goes on; 0: ten seconds. A minute more ends
				 * it */
};

struct weft_sa_answer {
	uint16_t status;	/* of the MAD, big endian as a number; 0x0300: no records */
	uint16_t record_bytes;	/* of version 2; else 0 */
	void *data;		/* to be freed by free(3) */
	size_t bytes;
};

/* Waits for the answer. 0: there is one, be it a status; -ETIMEDOUT; -EINVAL: no such question, or no such port; -ENOENT: the
 * program is at no host of a fabric; -ECONNRESET: weftd has ended before the answer was whole: the next one may be asked, and has
 * none of the records that Configs had added; another -errno. Any thread. */
int weft_sa_ask(const char *ca_name, int portnum, const struct weft_sa_question *question, struct weft_sa_answer *answer);

/* Of class version 1; all 0 but what is meant. */
struct weft_sa_options {
	uint8_t retries;	/* how often a packet goes again, or a missing one is asked for: 0 to 7 */
	uint8_t lsb_first;	/* 1: bit 0 of the flags of a packet is the least significant one; 0: the most significant one */
	uint8_t reserved[6];	/* 0 */
};

/* As weft_sa_ask, which has 7 retries and the most significant bit first, as NULL for the options. -EINVAL also for options that
 * there are not. */
int weft_sa_ask_with(const char *ca_name, int portnum, const struct weft_sa_question *question,
		     const struct weft_sa_options *options, struct weft_sa_answer *answer);

/* ---- a UD QP whose receive buffers several clients of a program share ----
 *
 * As QP1 has them in weft: each client has a number of buffers, its own or the default; while few are posted more are added, and
 * go when there are too many; when the memory is used up a client has what it has buffers for, what else comes for it is
 * discarded, and the others lose nothing. Messages are told apart by a key. Receives that verbs refuse to post are tried again by
 * the next call that posts; weft_shared_poll is one, and says what they say. All calls: any thread; none waits. */

struct ibv_qp;
struct weft_shared;

/* Whose a message is. Called by weft_shared_poll; must not call these functions. */
typedef uint32_t weft_shared_key(void *arg, const void *message, size_t bytes);
/* A client that asked for so many buffers, or -1 for none, got so many messages in a second, and should ask for so many. Told
 * once, by weft_shared_poll; must not call these functions. */
typedef void weft_shared_told(void *arg, int client, int asked, uint32_t arrived, uint32_t should);

struct weft_shared_options {
	uint32_t message_bytes;	/* of the longest message; 0: 256; at most 4096 */
	/* Three tunables as they begin; weft_shared_set changes them. The memory is for `most` of here. */
	uint32_t each;		/* buffers of a client without a number of its own; 0: 16 */
	uint32_t most;		/* buffers in all, posted and held; 0: as many as the receive queue has places */
	uint32_t fixed;		/* so many posted or held, whoever is registered, and nothing else; 0: not */
	weft_shared_key *key;	/* NULL: the second byte of a message: the management class of a MAD */
	weft_shared_told *told;	/* may be NULL */
	void *arg;		/* of both */
};

struct weft_shared_message {
	int client;
	uint32_t buffer;	/* weft's own */
	const void *data;	/* until weft_shared_release */
	uint32_t bytes;
	const void *grh;	/* 40 bytes; NULL: it came without one */
	uint32_t src_qp;
	uint16_t slid;
	uint8_t sl;
};

struct weft_shared_counts {
	uint64_t arrivals, discards, unknown;	/* unknown: of no client, by its key */
	uint64_t top_ups, trims;
	uint32_t posted, target, automatic, held;
};

/* qp: of type UD, without an SRQ, and in a state in which receives can be posted; nobody else posts its receives or polls its
 * receive CQ, and it is destroyed after weft_shared_destroy. options: NULL: the defaults. NULL and errno: EINVAL, ENOMEM or what
 * verbs say. */
struct weft_shared *weft_shared_create(struct ibv_qp *qp, const struct weft_shared_options *options);
/* 0; -EBUSY: receives are posted, and the QP is not in the error or reset state. What clients hold is gone. */
int weft_shared_destroy(struct weft_shared *s);

/* buffers: its own number, or -1. The client's number; -EBUSY: the key is a client's; -ENOSPC: no memory for that number beside
 * the others', or too many clients; -EINVAL, -ENOMEM. */
int weft_shared_register(struct weft_shared *s, uint32_t key, int buffers);
/* What it holds is given back, and may be written over. 0 or -ENOENT. */
int weft_shared_unregister(struct weft_shared *s, int client);
/* So many buffers more, or fewer: before a burst, and after it. 0; -ENOENT; -EINVAL: it has not so many; -ENOSPC. */
int weft_shared_change(struct weft_shared *s, int client, int more);

/* 1: a message, which its client holds; 0: there is none; -EIO: the QP is in the error state, or its CQ is; else what posting
 * says. */
int weft_shared_poll(struct weft_shared *s, struct weft_shared_message *message);
/* Its client is done with it. 0; -EINVAL: it does not hold it. */
int weft_shared_release(struct weft_shared *s, const struct weft_shared_message *message);

/* Of a client, or of all: -1. 0 or -ENOENT. */
int weft_shared_counts(struct weft_shared *s, int client, struct weft_shared_counts *counts);
/* Datagrams since weft_shared_create that the QP dropped: no receive was posted, or their message is longer than message_bytes.
 * No client's: nobody has seen whose they were. weft_shared_counts does not count them among the arrivals. */
uint64_t weft_shared_drops(struct weft_shared *s);

/* Changes tunables, while messages come: NAME=VALUE, with blanks or commas between them, as weft-mad(1) tells them for QP0 and
 * QP1: "each=40 growth=1". each, floor, low, high, most and fixed are buffers, low-percent is percent, period-ms milliseconds,
 * growth and watch are factors. They hold for all clients at once: missing receives are posted before it returns, and those that
 * are too many are not posted again. The text is the caller's.
 *
 * 0. Nothing is changed with -EINVAL: no text of this form, values that make no sense alone or together, or window, longest-kb or
 * program-kb, which are of weftd's QPs alone; -ENOENT: no tunable of that name; -ENOSPC: `most` is beyond the number at
 * weft_shared_create, for which the memory is. -EIO: they are set, but verbs refuse to post. */
int weft_shared_set(struct weft_shared *s, const char *tunables);
/* All of them with their values, in the form of weft_shared_set, as snprintf(3): as much as there is room for, and NUL; the bytes
 * of the whole text without NUL, below 256. room may be 0. */
size_t weft_shared_get(struct weft_shared *s, char *tunables, size_t room);

#ifdef __cplusplus
}
#endif

#endif
