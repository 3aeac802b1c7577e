/* efa.c: libefa for programs that link to it: calls for Amazon's adapters return EOPNOTSUPP. */
#include <errno.h>
#include <stddef.h>

#define NUMBER(name) int name(void) { return EOPNOTSUPP; }
#define POINTER(name) void *name(void) { errno = EOPNOTSUPP; return NULL; }

NUMBER(efadv_query_device)
NUMBER(efadv_query_ah)
POINTER(efadv_create_driver_qp)
POINTER(efadv_create_qp_ex)
POINTER(efadv_create_cq)
POINTER(efadv_cq_from_ibv_cq_ex)
