/* The ABI of libibverbs 1.0 (2006), whose objects had another layout. A program that old sees no devices; what it could only
 * call with an object of a device is refused. */
#include "abi/verbs/object.h"

#include <stdlib.h>

#define OLD(name, function) __asm__(".symver " #function "," #name "@IBVERBS_1.0")

ABI_EXPORT void *old_empty_list(int *num_devices);
ABI_EXPORT void old_free_list(void *list);
ABI_EXPORT void *old_no_object(void);
ABI_EXPORT int old_no_success(void);
ABI_EXPORT void old_nothing(void);
ABI_EXPORT void old_register_driver(const char *name, void *init);

void *old_empty_list(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	return calloc(1, sizeof(void *));
}

void old_free_list(void *list)
{
	free(list);
}

void *old_no_object(void)
{
	return fail(-EOPNOTSUPP);
}

int old_no_success(void)
{
	return answer(-EOPNOTSUPP);
}

void old_nothing(void)
{
}

/* Drivers register by another call since 2017. */
void old_register_driver(const char *name, void *init)
{
}

OLD(ibv_get_device_list, old_empty_list);
OLD(ibv_free_device_list, old_free_list);
OLD(ibv_get_device_name, old_no_object);
OLD(ibv_get_device_guid, old_no_object);
OLD(ibv_open_device, old_no_object);
OLD(ibv_alloc_pd, old_no_object);
OLD(ibv_reg_mr, old_no_object);
OLD(ibv_create_cq, old_no_object);
OLD(ibv_create_srq, old_no_object);
OLD(ibv_create_qp, old_no_object);
OLD(ibv_create_ah, old_no_object);
OLD(ibv_close_device, old_no_success);
OLD(ibv_get_async_event, old_no_success);
OLD(ibv_query_device, old_no_success);
OLD(ibv_query_port, old_no_success);
OLD(ibv_query_gid, old_no_success);
OLD(ibv_query_pkey, old_no_success);
OLD(ibv_dealloc_pd, old_no_success);
OLD(ibv_dereg_mr, old_no_success);
OLD(ibv_resize_cq, old_no_success);
OLD(ibv_destroy_cq, old_no_success);
OLD(ibv_get_cq_event, old_no_success);
OLD(ibv_modify_srq, old_no_success);
OLD(ibv_query_srq, old_no_success);
OLD(ibv_destroy_srq, old_no_success);
OLD(ibv_query_qp, old_no_success);
OLD(ibv_modify_qp, old_no_success);
OLD(ibv_destroy_qp, old_no_success);
OLD(ibv_destroy_ah, old_no_success);
OLD(ibv_attach_mcast, old_no_success);
OLD(ibv_detach_mcast, old_no_success);
OLD(ibv_ack_async_event, old_nothing);
OLD(ibv_ack_cq_events, old_nothing);
__asm__(".symver old_register_driver,ibv_register_driver@IBVERBS_1.1");
