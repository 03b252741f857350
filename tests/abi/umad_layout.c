/* Compiled twice, with our declarations of libibumad's structures and with the stock header: what it prints is the same. */
#ifdef STOCK_HEADER
#include <infiniband/umad.h>
#define SWITCH(ours, stock) stock
#else
#include "abi/umad/umad_abi.h"
#define SWITCH(ours, stock) ours
#endif

#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf("%s %zu\n", #type, sizeof(struct type))
#define AT(type, member) printf("%s.%s %zu\n", #type, #member, offsetof(struct type, member))

int main(void)
{
	SIZE(ib_mad_addr); SIZE(ib_user_mad); SIZE(umad_port); SIZE(umad_ca); SIZE(umad_device_node); SIZE(umad_reg_attr);
	AT(ib_mad_addr, qkey); AT(ib_mad_addr, lid); AT(ib_mad_addr, sl); AT(ib_mad_addr, path_bits);
	AT(ib_mad_addr, grh_present); AT(ib_mad_addr, gid_index); AT(ib_mad_addr, hop_limit); AT(ib_mad_addr, traffic_class);
	AT(ib_mad_addr, gid); AT(ib_mad_addr, flow_label); AT(ib_mad_addr, pkey_index);
	AT(ib_user_mad, status); AT(ib_user_mad, timeout_ms); AT(ib_user_mad, retries); AT(ib_user_mad, length);
	AT(ib_user_mad, addr); AT(ib_user_mad, data);
	AT(umad_port, portnum); AT(umad_port, base_lid); AT(umad_port, lmc); AT(umad_port, sm_lid); AT(umad_port, sm_sl);
	AT(umad_port, state); AT(umad_port, phys_state); AT(umad_port, rate); AT(umad_port, capmask); AT(umad_port, gid_prefix);
	AT(umad_port, port_guid); AT(umad_port, pkeys_size); AT(umad_port, pkeys); AT(umad_port, link_layer);
	AT(umad_ca, node_type); AT(umad_ca, numports); AT(umad_ca, fw_ver); AT(umad_ca, ca_type); AT(umad_ca, hw_ver);
	AT(umad_ca, node_guid); AT(umad_ca, system_guid); AT(umad_ca, ports);
	AT(umad_device_node, ca_name);
	AT(umad_reg_attr, mgmt_class_version); AT(umad_reg_attr, flags); AT(umad_reg_attr, method_mask); AT(umad_reg_attr, oui);
	AT(umad_reg_attr, rmpp_version);
#ifdef HAS_PAIRS
	SIZE(umad_ca_pair);
	AT(umad_ca_pair, smi_preferred_port); AT(umad_ca_pair, gsi_name); AT(umad_ca_pair, gsi_preferred_port);
#endif
	printf("names %d ports %d\n", SWITCH(UMAD_NAME, UMAD_CA_NAME_LEN), SWITCH(UMAD_CA_PORTS, UMAD_CA_MAX_PORTS));
	return 0;
}
