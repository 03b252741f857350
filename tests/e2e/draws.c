/* Two processes draw numbers: keys, indices of QP numbers, communication and transaction ids, PSNs. What one of them sees must
 * tell nothing of the other's, so none of the sequences is the same. Needs WEFT_DIR of a running weftd. */
#include "fail.h"

#include "abi/ucm/ucm_state.h"
#include "fabric/page.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <sys/wait.h>

enum { EACH = 8 };

struct draws {
	uint32_t key[EACH], srqn[EACH], index[EACH], comm[EACH], psn[EACH];
	uint64_t tid[EACH];
};

static void draw_verbs(struct draws *d)
{
	static uint8_t memory[4096];
	struct runtime *rt = runtime_get();
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_recv_wr = 1,
					    .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_srq_init_attr_ex shared = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct pd *pd;
	struct cq *cq;

	if (!rt)
		die("no weftd");
	runtime_enter(rt);
	check(pd_create(runtime_ca(rt), &runtime_ca(rt)->dev[0], &pd), "pd");
	check(cq_create(runtime_ca(rt), &runtime_ca(rt)->dev[0], 64, &cq), "cq");
	for (int i = 0; i < EACH; i++) {
		struct mr *mr;
		struct srq *srq;
		struct qp *qp;

		check(mr_create(pd, memory, sizeof(memory), (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE, &mr), "mr");
		check(srq_create(pd, &shared, NULL, NULL, &srq), "srq");
		check(qp_create(runtime_ca(rt), &runtime_ca(rt)->dev[0], &init, pd, cq, cq, NULL, NULL, &qp), "qp");
		d->key[i] = mr->key >> 8;
		d->srqn[i] = srq->srqn;
		d->index[i] = qpn_index(qp->qpn);
	}
	runtime_leave(rt);
}

static void draw_cm(struct draws *d)
{
	check(weft_ucm_open(0) < 0, "rdma_cm");
	ucm_lock();
	for (int i = 0; i < EACH; i++) {
		struct cm_id *cm = cm_id_create(&ucm.cm, NULL);
		struct ucm_id *id;

		check(ucm_id_create(&id), "id");
		if (!cm)
			die("no id");
		d->comm[i] = cm->local_id & 0xfffff;
		d->tid[i] = cm->tid;
		d->psn[i] = id->psn;
	}
	ucm_unlock_and_send();
}

static struct draws draw_in_a_process(void)
{
	struct draws d = { 0 };
	int fd[2], status;
	pid_t pid;

	check(pipe(fd) ? -errno : 0, "pipe");
	pid = fork();
	if (pid == 0) {
		draw_verbs(&d);
		draw_cm(&d);
		_exit(write(fd[1], &d, sizeof(d)) != sizeof(d));
	}
	if (read(fd[0], &d, sizeof(d)) != sizeof(d) || waitpid(pid, &status, 0) < 0 || status)
		die("a process failed");
	close(fd[0]);
	close(fd[1]);
	return d;
}

#define DIFFER(a, b, member)							\
	do {									\
		if (memcmp((a).member, (b).member, sizeof((a).member)) == 0)	\
			die("two processes draw the same: " #member);		\
	} while (0)

int main(void)
{
	struct draws a = draw_in_a_process(), b = draw_in_a_process();

	DIFFER(a, b, key);
	DIFFER(a, b, srqn);
	DIFFER(a, b, index);
	DIFFER(a, b, comm);
	DIFFER(a, b, tid);
	DIFFER(a, b, psn);
	return 0;
}
