/* /dev/infiniband/rdma_cm in user space: an open gives a real, pollable descriptor of libibverbs' connection manager, and
 * write, close, dup and fstat on such a descriptor are answered here. libibverbs.so.1 is found at the first open. */
#ifndef WEFT_ABI_SHIM_CM_DEVICE_H
#define WEFT_ABI_SHIM_CM_DEVICE_H

/* Opens the device; flags as open(2). Returns a descriptor, or -1 with errno (ENXIO: the libibverbs found is not ours). */
int cm_device_open(int flags);

#endif
