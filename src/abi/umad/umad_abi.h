/* What programs compiled with rdma-core's umad.h share with libibumad.so.3: its structures, declared anew so that weft is built
 * without that header. abi/umad_test compares them with it. Members in network byte order are of type be*. */
#ifndef WEFT_ABI_UMAD_UMAD_ABI_H
#define WEFT_ABI_UMAD_UMAD_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UMAD_EXPORT __attribute__((visibility("default")))

typedef uint16_t be16;
typedef uint32_t be32;
typedef uint64_t be64;

enum { UMAD_NAME = 20, UMAD_CA_PORTS = 10, UMAD_DEVICES = 32, UMAD_AGENTS = 32, UMAD_USER_RMPP = 1 };

typedef struct ib_mad_addr {
	be32 qpn, qkey;
	be16 lid;
	uint8_t sl, path_bits;
	uint8_t grh_present, gid_index, hop_limit, traffic_class;
	uint8_t gid[16];
	be32 flow_label;
	uint16_t pkey_index;
	uint8_t reserved[6];
} ib_mad_addr_t;

typedef struct ib_user_mad {
	uint32_t agent_id, status, timeout_ms, retries, length;
	ib_mad_addr_t addr;
	uint8_t data[];
} ib_user_mad_t;

typedef struct umad_port {
	char ca_name[UMAD_NAME];
	int portnum;
	unsigned base_lid, lmc, sm_lid, sm_sl, state, phys_state, rate;
	be32 capmask;
	be64 gid_prefix, port_guid;
	unsigned pkeys_size;
	uint16_t *pkeys;		/* owned by whoever got the port */
	char link_layer[UMAD_NAME];
} umad_port_t;

typedef struct umad_ca {
	char ca_name[UMAD_NAME];
	unsigned node_type;
	int numports;
	char fw_ver[20], ca_type[40], hw_ver[20];
	be64 node_guid, system_guid;
	umad_port_t *ports[UMAD_CA_PORTS];
} umad_ca_t;

/* Since rdma-core 53: the devices that have the SMI and the GSI of a port, which are one but for planar ports. */
struct umad_ca_pair {
	char smi_name[UMAD_NAME];	/* empty: none */
	uint32_t smi_preferred_port;
	char gsi_name[UMAD_NAME];
	uint32_t gsi_preferred_port;
};

struct umad_device_node {
	struct umad_device_node *next;
	const char *ca_name;
};

struct umad_reg_attr {
	uint8_t mgmt_class, mgmt_class_version;
	uint32_t flags;
	uint64_t method_mask[2];
	uint32_t oui;
	uint8_t rmpp_version;
};

int umad_init(void);
int umad_done(void);
int umad_get_cas_names(char cas[][UMAD_NAME], int max);
int umad_get_ca_portguids(const char *ca_name, be64 *guids, int max);
int umad_get_ca(const char *ca_name, umad_ca_t *ca);
int umad_release_ca(umad_ca_t *ca);
int umad_get_port(const char *ca_name, int portnum, umad_port_t *port);
int umad_release_port(umad_port_t *port);
int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max);
struct umad_device_node *umad_get_ca_device_list(void);
void umad_free_ca_device_list(struct umad_device_node *head);
int umad_sort_ca_device_list(struct umad_device_node **head, size_t size);

int umad_get_smi_gsi_pairs(struct umad_ca_pair pairs[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char *name, uint8_t portnum, struct umad_ca_pair *pair, unsigned enforce_smi);

int umad_open_port(const char *ca_name, int portnum);
int umad_open_smi_port(const char *ca_name, int portnum);
int umad_close_port(int portid);
int umad_get_fd(int portid);
int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries);
int umad_recv(int portid, void *umad, int *length, int timeout_ms);
int umad_poll(int portid, int timeout_ms);
int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version, long method_mask[16 / sizeof(long)]);
int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
		      long method_mask[16 / sizeof(long)]);
int umad_register2(int portid, struct umad_reg_attr *attr, uint32_t *agent_id);
int umad_unregister(int portid, int agentid);

void *umad_get_mad(void *umad);
size_t umad_size(void);
int umad_status(void *umad);
ib_mad_addr_t *umad_get_mad_addr(void *umad);
int umad_set_grh(void *umad, void *mad_addr);
int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey);
int umad_set_addr_net(void *umad, be16 dlid, be32 dqp, int sl, be32 qkey);
int umad_set_pkey(void *umad, int pkey_index);
int umad_get_pkey(void *umad);
int umad_debug(int level);
void umad_addr_dump(ib_mad_addr_t *addr);
void umad_dump(void *umad);

const char *umad_class_str(uint8_t mgmt_class);
const char *umad_method_str(uint8_t mgmt_class, uint8_t method);
const char *umad_attribute_str(uint8_t mgmt_class, be16 attr_id);
const char *umad_common_mad_status_str(be16 status);
const char *umad_sa_mad_status_str(be16 status);

#endif
