/* A path that the peer of a connection wants: its QP gets it, or the peer hears why not. */
#include "abi/ucm/ucm_state.h"
#include "adapter.h"

enum { PEER_QPN = 0x77, ACK_TIMEOUT = 17 };

static struct qp *connected(struct adapter *a, struct ca_device *dev)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = PEER_QPN,
				    .ah_attr = { .port_num = 1, .dlid = 9 } };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct cq *cq;
	struct pd *pd;
	struct qp *qp;

	if (device_has(dev, DEVICE_GRH_REQUIRED)) {
		attr.ah_attr.is_global = 1;
		memcpy(attr.ah_attr.grh.dgid.raw, (uint8_t[16]){ [10] = 0xff, 0xff, 10, 0, 0, 2 }, 16);
	}
	assert_int_equal(pd_create(&a->ca, dev, &pd), 0);
	assert_int_equal(cq_create(&a->ca, dev, 16, &cq), 0);
	assert_int_equal(qp_create(&a->ca, dev, &init, pd, cq, cq, NULL, NULL, &qp), 0);
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), 0);
	return qp;
}

static struct cm_id conversation(const struct qp *qp)
{
	return (struct cm_id){
		.state = CM_ESTABLISHED, .local_qpn = qp->qpn, .remote_qpn = PEER_QPN, .path = { .device = qp->dev->index },
		.alternate = { .device = qp->dev->index, .slid = ADAPTER_LID | 1, .dlid = 11, .sl = 2, .ack_timeout = ACK_TIMEOUT,
			       .sgid = { [10] = 0xff, 0xff, 10, 8, 0, 1 }, .dgid = { [10] = 0xff, 0xff, 10, 8, 0, 2 },
			       .hop_limit = 64, .tclass = 4, .flow_label = 0x12345 },
	};
}

static void the_qp_gets_the_path(void **state)
{
	struct adapter *a = adapter_new();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct cm_id cm;
	struct qp *qp;

	(void)state;
	a->ib->lid = ADAPTER_LID & ~1;
	a->ib->lmc = 1;
	qp = connected(a, a->ib);
	cm = conversation(qp);
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_SUCCESS);
	assert_int_equal(qp_query(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.path_mig_state, IBV_MIG_REARM);
	assert_int_equal(attr.alt_ah_attr.dlid, 11);
	assert_int_equal(attr.alt_ah_attr.src_path_bits, 1);
	assert_int_equal(attr.alt_ah_attr.sl, 2);
	assert_int_equal(attr.alt_timeout, ACK_TIMEOUT);
	assert_false(attr.alt_ah_attr.is_global);
	/* another one, while it waits: the state stays */
	cm.alternate.dlid = 13;
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_SUCCESS);
	assert_int_equal(qp->attr.path_mig_state, IBV_MIG_REARM);
	assert_int_equal(qp->migration->alternate.dlid, 13);

	memcpy(a->roce->gid[1].raw, cm.alternate.sgid, 16);
	a->roce->gid[1].valid = true;
	qp = connected(a, a->roce);
	cm = conversation(qp);
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_SUCCESS);
	assert_int_equal(qp->attr.alt_ah_attr.grh.sgid_index, 1);
	assert_memory_equal(qp->attr.alt_ah_attr.grh.dgid.raw, cm.alternate.dgid, 16);
	assert_int_equal(qp->attr.alt_ah_attr.grh.traffic_class, 4);
	assert_int_equal(qp->attr.path_mig_state, IBV_MIG_REARM);
	adapter_delete(a);
}

static void what_cannot_be_is_refused(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *ib = connected(a, a->ib), *roce = connected(a, a->roce);
	struct cm_id cm = conversation(roce);

	(void)state;
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_INVALID_GID);	/* no address of ours */
	cm.remote_qpn++;
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_REJECT);		/* no QP of this conversation */
	cm = conversation(ib);
	cm.alternate.slid = ADAPTER_LID + 1;
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_INVALID_LID);
	cm = conversation(ib);
	cm.path.device = 1;
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_REJECT);
	cm = conversation(ib);
	cm.local_qpn ^= 1;
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_REJECT);
	cm = conversation(ib);
	cm.alternate.dlid = 0;		/* nowhere */
	assert_int_equal(ucm_load_path(&a->ca, &cm, 1), CM_APR_REJECT);
	assert_null(ib->migration);
	assert_null(roce->migration);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_qp_gets_the_path), cmocka_unit_test(what_cannot_be_is_refused) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
